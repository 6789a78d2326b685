package trial;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.function.Supplier;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/** The services as servlets on an embedded Tomcat. Prints its port. */
public final class TomcatMain {
    private TomcatMain() {}

    /** Answers with what a service says. */
    private static final class ServiceServlet extends HttpServlet {
        private static final long serialVersionUID = 1;
        private final transient Supplier<String> service;

        ServiceServlet(Supplier<String> service) {
            this.service = service;
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print(service.get());
        }
    }

    public static void main(String[] arguments) throws Exception {
        File folder = Files.createTempDirectory("trial-tomcat").toFile();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.getPath());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", folder.getPath());
        serve(context, "/light", Services::light);
        serve(context, "/heavy", Services::heavy);
        serve(context, "/failing", () -> {
            throw new IllegalStateException("the application's own");
        });
        tomcat.start();
        System.out.println("port " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }

    private static void serve(Context context, String path, Supplier<String> service) {
        Tomcat.addServlet(context, path, new ServiceServlet(service));
        context.addServletMappingDecoded(path, path);
    }
}
