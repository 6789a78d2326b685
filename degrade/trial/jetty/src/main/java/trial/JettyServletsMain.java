package trial;

import java.util.stream.Stream;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * The services as servlets of jakarta in one of Jetty's environments, which are alike but for their packages, below its name. Its
 * libraries are on the class path, and those of no other. Prints its port.
 */
public final class JettyServletsMain {
    private JettyServletsMain() {}

    private static Handler context(String environment) throws ReflectiveOperationException {
        String servlets = "org.eclipse.jetty." + environment + ".servlet.";
        Class<?> contexts = Class.forName(servlets + "ServletContextHandler");
        Class<?> holders = Class.forName(servlets + "ServletHolder");
        Object context = contexts.getConstructor().newInstance();
        contexts.getMethod("setContextPath", String.class).invoke(context, "/" + environment);
        for (String service : Stream.of(Services.ALL, Services.LATER).flatMap(Stream::of).toList()) {
            Object holder = holders.getConstructor(String.class, jakarta.servlet.Servlet.class)
                    .newInstance(service, new JakartaServlet(service));
            holders.getMethod("setAsyncSupported", boolean.class).invoke(holder, true);
            contexts.getMethod("addServlet", holders, String.class).invoke(context, holder, "/" + service);
        }
        return context instanceof Handler handler
                ? handler
                : (Handler) contexts.getMethod("getCoreContextHandler").invoke(context);
    }

    public static void main(String[] arguments) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server, 1, 1);
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(context(arguments[0]));
        server.start();
        System.out.println("port " + connector.getLocalPort());
        server.join();
    }
}
