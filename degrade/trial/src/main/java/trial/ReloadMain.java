package trial;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.apache.catalina.Context;
import org.apache.catalina.Lifecycle;
import org.apache.catalina.startup.Tomcat;

/**
 * A web application on Tomcat that has its classes for itself, and another one that reloads it and says how many
 * class loaders of it are left. Prints its port.
 */
public final class ReloadMain {
    /** What it serves, each below a path of its own. */
    private static final List<String> SERVICES = List.of("light", "heavy", "pooled", "later", "again", "failing");

    /** All services of the web application. */
    public static final class Servlet extends JakartaServlet {
        private static final long serialVersionUID = 1;

        @Override
        public void destroy() {
            Services.end();
        }
    }

    private static final class Control extends HttpServlet {
        private static final long serialVersionUID = 1;
        private static final long PATIENCE_NANOS = 10_000_000_000L;
        private final transient Context application;
        private final transient List<WeakReference<ClassLoader>> loaders;

        Control(Context application, List<WeakReference<ClassLoader>> loaders) {
            this.application = application;
            this.loaders = loaders;
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            if (request.getRequestURI().endsWith("reload")) {
                application.reload();
            }
            long untilNanos = System.nanoTime() + PATIENCE_NANOS;
            while (nrLeft() > 1 && System.nanoTime() - untilNanos < 0) {
                System.gc();
            }
            response.getWriter().print("left " + nrLeft() + " of " + loaders.size());
        }

        private long nrLeft() {
            return loaders.stream().filter(loader -> loader.get() != null).count();
        }
    }

    private ReloadMain() {}

    public static void main(String[] arguments) throws Exception {
        Path folder = Files.createTempDirectory("trial-tomcat");
        Path classes = Files.createDirectories(folder.resolve("web/WEB-INF/classes/trial"));
        for (Class<?> each : classes()) {
            String file = each.getName().substring(each.getName().lastIndexOf('.') + 1) + ".class";
            try (InputStream stream = each.getResourceAsStream(file)) {
                Files.copy(stream, classes.resolve(file));
            }
        }
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.toString());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        List<WeakReference<ClassLoader>> loaders = new CopyOnWriteArrayList<>();
        Context application = tomcat.addContext("/web", folder.resolve("web").toString());
        // What is not in a descriptor is gone after each stop.
        application.addLifecycleListener(event -> {
            if (event.getType().equals(Lifecycle.CONFIGURE_START_EVENT)) {
                Tomcat.addServlet(application, "services", Servlet.class.getName()).setAsyncSupported(true);
                SERVICES.forEach(service -> application.addServletMappingDecoded("/" + service, "services"));
            } else if (event.getType().equals(Lifecycle.AFTER_START_EVENT)) {
                loaders.add(new WeakReference<>(application.getLoader().getClassLoader()));
            }
        });
        Context control = tomcat.addContext("/control", folder.toString());
        Tomcat.addServlet(control, "control", new Control(application, loaders));
        control.addServletMappingDecoded("/*", "control");
        tomcat.start();
        System.out.println("port " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }

    private static List<Class<?>> classes() {
        return Stream.concat(
                        Stream.<Class<?>>of(Servlet.class, JakartaServlet.class, Services.class),
                        Stream.of(Services.class.getDeclaredClasses()))
                .toList();
    }
}
