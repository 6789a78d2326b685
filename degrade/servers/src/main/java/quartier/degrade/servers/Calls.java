package quartier.degrade.servers;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Calls by name, on what public classes say of themselves. */
final class Calls {
    /** By class, so that a class loader that is gone takes its methods with it. */
    private static final ClassValue<Map<String, Method>> METHODS = new ClassValue<>() {
        @Override
        protected Map<String, Method> computeValue(Class<?> type) {
            return new ConcurrentHashMap<>();
        }
    };

    private Calls() {}

    static Object call(Object target, String name, Object... arguments) {
        Method method = METHODS.get(target.getClass())
                .computeIfAbsent(name + "/" + arguments.length, key -> find(target.getClass(), name, arguments.length));
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException thrown) {
            throw new IllegalStateException(name + " failed", thrown.getCause());
        } catch (IllegalAccessException thrown) {
            throw new IllegalStateException(name + " may not be called", thrown);
        }
    }

    static String text(Object target, String name, Object... arguments) {
        Object value = target == null ? null : call(target, name, arguments);
        return value == null ? null : value.toString();
    }

    /** The class itself may be hidden in its module; one that it extends is not. */
    private static Method find(Class<?> type, String name, int nrArguments) {
        for (Class<?> open = type; open != null; open = open.getSuperclass()) {
            if (Modifier.isPublic(open.getModifiers()) && open.getModule().isExported(open.getPackageName())) {
                for (Method method : open.getMethods()) {
                    if (method.getName().equals(name)
                            && method.getParameterCount() == nrArguments
                            && Modifier.isPublic(method.getDeclaringClass().getModifiers())) {
                        return method;
                    }
                }
            }
        }
        throw new IllegalStateException(type.getName() + " has no public method " + name);
    }
}
