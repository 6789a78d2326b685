package bench;

import com.netflix.concurrency.limits.Limiter;
import com.netflix.concurrency.limits.limit.Gradient2Limit;
import com.netflix.concurrency.limits.limit.WindowedLimit;
import com.netflix.concurrency.limits.limiter.AbstractPartitionedLimiter;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import trial.Services;

/**
 * The services on Tomcat: {@code plain}, or with what others do against overload, {@code priorities} (Java's own) or {@code limits}
 * (Netflix's).
 */
final class TomcatMain {
    /** The number of a field of {@code /proc/PID/stat} after the state. */
    private static final int NICE = 16;

    private TomcatMain() {}

    public static void main(String[] arguments) throws Exception {
        File folder = Files.createTempDirectory("bench-tomcat").toFile();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.getPath());
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", folder.getPath());
        serve(context, "/light", Services::light);
        serve(context, "/heavy", Services::heavy);
        switch (arguments[0]) {
            case "limits" -> add(context, new Limits());
            case "priorities" -> add(context, new Priorities());
            default -> {}
        }
        tomcat.start();
        System.out.println("port " + tomcat.getConnector().getLocalPort());
        tomcat.getServer().await();
    }

    private static void serve(Context context, String path, Supplier<String> service) {
        Tomcat.addServlet(context, path, new HttpServlet() {
            private static final long serialVersionUID = 1;

            @Override
            protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
                response.getWriter().print(service.get());
            }
        });
        context.addServletMappingDecoded(path, path);
    }

    private static void add(Context context, Filter filter) {
        FilterDef definition = new FilterDef();
        definition.setFilterName("peer");
        definition.setFilter(filter);
        context.addFilterDef(definition);
        FilterMap everywhere = new FilterMap();
        everywhere.setFilterName("peer");
        everywhere.addURLPattern("/*");
        context.addFilterMap(everywhere);
    }

    /** Light requests run at the highest priority of a thread, others at the lowest. */
    private static final class Priorities implements Filter {
        /** What has no effect is no comparison. */
        Priorities() throws IOException {
            Thread.currentThread().setPriority(Thread.MIN_PRIORITY);
            String stat = Files.readString(Path.of("/proc/thread-self/stat"));
            Thread.currentThread().setPriority(Thread.NORM_PRIORITY);
            if (stat.substring(stat.lastIndexOf(')') + 2).split(" ")[NICE].equals("0")) {
                throw new IOException("Java's thread priorities have no effect here, for the JVM is not root's: leave out this variant");
            }
        }

        @Override
        public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
                throws IOException, ServletException {
            boolean isLight = ((HttpServletRequest) request).getRequestURI().equals("/light");
            Thread.currentThread().setPriority(isLight ? Thread.MAX_PRIORITY : Thread.MIN_PRIORITY);
            try {
                chain.doFilter(request, response);
            } finally {
                Thread.currentThread().setPriority(Thread.NORM_PRIORITY);
            }
        }
    }

    /** concurrency-limits as its own servlet filter does it, which is not published for {@code jakarta}: light has nine tenths. */
    private static final class Limits implements Filter {
        private static final class Builder extends AbstractPartitionedLimiter.Builder<Builder, HttpServletRequest> {
            @Override
            protected Builder self() {
                return this;
            }
        }

        private final Limiter<HttpServletRequest> limiter = new Builder()
                .limit(WindowedLimit.newBuilder().build(Gradient2Limit.newBuilder().build()))
                .partitionResolver(request -> request.getRequestURI().substring(1))
                .partition("light", 0.9)
                .partition("heavy", 0.1)
                .build();

        @Override
        public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
                throws IOException, ServletException {
            var admitted = limiter.acquire((HttpServletRequest) request);
            if (admitted.isEmpty()) {
                ((HttpServletResponse) response).sendError(429);
                return;
            }
            try {
                chain.doFilter(request, response);
                admitted.get().onSuccess();
            } catch (IOException | ServletException | RuntimeException thrown) {
                admitted.get().onIgnore();
                throw thrown;
            }
        }
    }
}
