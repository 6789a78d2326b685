package trial;

import java.util.Map;
import java.util.concurrent.Callable;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.embedded.jetty.JettyServletWebServerFactory;
import org.springframework.boot.web.embedded.tomcat.TomcatServletWebServerFactory;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.boot.web.servlet.server.ServletWebServerFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.context.request.async.DeferredResult;

/** The services as a Spring Boot application, on the server that is named: tomcat or jetty. Prints its port. */
public final class SpringMain {
    private SpringMain() {}

    /** The light service: by a path that says so, and by one that does not. */
    @RestController
    public static class LightController {
        @GetMapping({"/light", "/a"})
        public String light() {
            return Services.light();
        }
    }

    /** The heavy one. */
    @RestController
    public static class HeavyController {
        @GetMapping({"/heavy", "/b"})
        public String heavy() {
            return Services.heavy();
        }

        /** On a thread of Spring's executor. */
        @GetMapping("/called")
        public Callable<String> called() {
            return Services::heavy;
        }

        @GetMapping("/later")
        public DeferredResult<String> later() {
            DeferredResult<String> result = new DeferredResult<>();
            Services.later(Services.LATER_MILLIS, () -> result.setResult("later"));
            return result;
        }

        @GetMapping("/failing")
        public String failing() {
            return Services.run("failing");
        }
    }

    /** What both have. */
    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import({LightController.class, HeavyController.class})
    public static class Application {}

    /** One server. */
    @Configuration(proxyBeanMethods = false)
    public static class OnTomcat {
        @Bean
        ServletWebServerFactory server() {
            return new TomcatServletWebServerFactory();
        }
    }

    /** The other. */
    @Configuration(proxyBeanMethods = false)
    public static class OnJetty {
        @Bean
        ServletWebServerFactory server() {
            return new JettyServletWebServerFactory();
        }
    }

    public static void main(String[] arguments) {
        Class<?> on = arguments[0].equals("jetty") ? OnJetty.class : OnTomcat.class;
        SpringApplication application = new SpringApplication(Application.class, on);
        application.setDefaultProperties(Map.of(
                "server.port", "0", "server.address", "127.0.0.1", "spring.main.banner-mode", "off",
                "logging.level.root", "warn"));
        var context = (ServletWebServerApplicationContext) application.run();
        System.out.println("port " + context.getWebServer().getPort());
    }
}
