package trial;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import org.apache.catalina.Context;
import org.apache.catalina.WebResourceRoot;
import org.apache.catalina.startup.Tomcat;
import org.apache.catalina.webresources.DirResourceSet;
import org.apache.catalina.webresources.StandardRoot;

/**
 * Apache Jackrabbit, as it is published, on an embedded Tomcat 9. Its repository is a new one. Prints its port when the
 * application has started.
 *
 * <p>{@code WebappMain WAR}
 */
public final class WebappMain {
    private WebappMain() {}

    public static void main(String[] arguments) throws Exception {
        Path war = Path.of(arguments[0]).toAbsolutePath();
        Path folder = Files.createTempDirectory("trial-webapp");
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.resolve("tomcat").toString());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Files.createDirectories(folder.resolve("tomcat").resolve("webapps"));
        Context context = tomcat.addWebapp("", war.toString());
        WebResourceRoot resources = new StandardRoot(context);
        resources.addPreResources(new DirResourceSet(resources, "/jackrabbit", settings(folder, war).toString(), "/"));
        context.setResources(resources);
        tomcat.start();
        System.out.println("port " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }

    /** What the application's own installer would write, with its own repository.xml. */
    private static Path settings(Path folder, Path war) throws IOException {
        Path settings = Files.createDirectories(folder.resolve("settings"));
        Path repository = Files.createDirectories(folder.resolve("repository"));
        Files.write(repository.resolve("repository.xml"), configuration(war));
        Files.writeString(settings.resolve("bootstrap.properties"), """
            repository.home=%1$s
            repository.config=%1$s/repository.xml
            repository.name=jackrabbit.repository
            rmi.enabled=false
            jndi.enabled=true
            java.naming.provider.url=http://www.apache.org/jackrabbit
            java.naming.factory.initial=org.apache.jackrabbit.core.jndi.provider.DummyInitialContextFactory
            """.formatted(repository.toString().replace(File.separatorChar, '/')));
        return settings;
    }

    private static byte[] configuration(Path war) throws IOException {
        try (ZipInputStream libraries = find(Files.newInputStream(war), "WEB-INF/lib/jackrabbit-core-.*");
                ZipInputStream library = find(libraries, "org/apache/jackrabbit/core/repository\\.xml")) {
            return library.readAllBytes();
        }
    }

    /** The archive, at the first entry of such a name. */
    private static ZipInputStream find(InputStream from, String name) throws IOException {
        ZipInputStream archive = new ZipInputStream(from);
        ZipEntry entry = archive.getNextEntry();
        while (entry != null && !entry.getName().matches(name)) {
            entry = archive.getNextEntry();
        }
        if (entry == null) {
            throw new IOException("there is no " + name);
        }
        return archive;
    }
}
