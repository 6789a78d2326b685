package trial;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;

/** One of the services as a servlet of jakarta, or all of them. */
public class JakartaServlet extends HttpServlet {
    private static final long serialVersionUID = 1;
    private final String service;

    public JakartaServlet(String service) {
        this.service = service;
    }

    /** The service that the path names. */
    protected JakartaServlet() {
        this(null);
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String asked = service == null ? request.getServletPath().substring(1) : service;
        switch (asked) {
            case "later" -> later(request);
            case "again" -> again(request, response);
            // Nobody completes it, so the server does, after this time.
            case "never" -> request.startAsync().setTimeout(Services.LATER_MILLIS);
            default -> response.getWriter().print(Services.run(asked));
        }
    }

    /** Is completed by a thread that is not the server's. */
    private static void later(HttpServletRequest request) {
        AsyncContext context = request.startAsync();
        Services.later(Services.LATER_MILLIS, () -> {
            try {
                context.getResponse().getWriter().print("later");
            } catch (IOException thrown) {
                throw new UncheckedIOException(thrown);
            } finally {
                context.complete();
            }
        });
    }

    /** Comes again, on a thread of the server's, and works. */
    private static void again(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getDispatcherType() == DispatcherType.ASYNC) {
            response.getWriter().print(Services.heavy());
        } else {
            Services.later(Services.LATER_MILLIS, request.startAsync()::dispatch);
        }
    }
}
