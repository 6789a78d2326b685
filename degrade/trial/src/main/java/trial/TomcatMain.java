package trial;

import java.io.File;
import java.nio.file.Files;
import java.util.stream.Stream;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;

/** The services as servlets on an embedded Tomcat; with {@code virtual}, on virtual threads. Prints its port. */
public final class TomcatMain {
    private TomcatMain() {}

    public static void main(String[] arguments) throws Exception {
        File folder = Files.createTempDirectory("trial-tomcat").toFile();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.getPath());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        if (arguments.length > 0) {
            tomcat.getConnector().setProperty("useVirtualThreads", "true");
        }
        Context context = tomcat.addContext("", folder.getPath());
        for (String service : Stream.of(Services.ALL, Services.LATER).flatMap(Stream::of).toList()) {
            Wrapper servlet = Tomcat.addServlet(context, service, new JakartaServlet(service));
            servlet.setAsyncSupported(true);
            context.addServletMappingDecoded("/" + service, service);
        }
        tomcat.start();
        System.out.println("port " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }
}
