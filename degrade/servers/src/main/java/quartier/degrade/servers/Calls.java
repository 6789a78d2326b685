package quartier.degrade.servers;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** Calls by name, on what public classes and interfaces say of themselves. */
final class Calls {
    /** By class, so that a class loader that is gone takes its methods with it. */
    private static final ClassValue<Map<String, Optional<Method>>> METHODS = new ClassValue<>() {
        @Override
        protected Map<String, Optional<Method>> computeValue(Class<?> type) {
            return new ConcurrentHashMap<>();
        }
    };

    private Calls() {}

    static Object call(Object target, String name, Object... arguments) {
        return method(target.getClass(), name, arguments)
                .map(method -> invoke(method, target, arguments))
                .orElseThrow(() -> missing(target.getClass(), name))
                .value;
    }

    static String text(Object target, String name, Object... arguments) {
        Object value = target == null ? null : call(target, name, arguments);
        return value == null ? null : value.toString();
    }

    /** Whether it can be asked this. */
    static boolean knows(Object target, String name) {
        return method(target.getClass(), name).isPresent();
    }

    /** Calls a static method of one of the interfaces of an object; false if none of them has it. */
    static boolean callStatic(Object of, String interfaceName, String name, Object... arguments) {
        for (Class<?> type : visible(of.getClass())) {
            if (type.getName().equals(interfaceName)) {
                Optional<Method> found = METHODS.get(type).computeIfAbsent(
                        key(name, arguments), key -> declared(type, name, arguments, true));
                found.ifPresent(method -> invoke(method, null, arguments));
                return found.isPresent();
            }
        }
        return false;
    }

    /** What a call has returned, which may be null. */
    private record Returned(Object value) {}

    private static Returned invoke(Method method, Object target, Object... arguments) {
        try {
            return new Returned(method.invoke(target, arguments));
        } catch (InvocationTargetException thrown) {
            throw new IllegalStateException(method.getName() + " failed", thrown.getCause());
        } catch (IllegalAccessException thrown) {
            throw new IllegalStateException(method.getName() + " may not be called", thrown);
        }
    }

    private static IllegalStateException missing(Class<?> type, String name) {
        return new IllegalStateException(type.getName() + " has no public method " + name);
    }

    /** Whoever calls a method does so with arguments of the same types each time. */
    private static String key(String name, Object... arguments) {
        return name + "/" + arguments.length;
    }

    /** The class itself may be hidden in its module; what it extends or implements is not. */
    private static Optional<Method> method(Class<?> type, String name, Object... arguments) {
        return METHODS.get(type).computeIfAbsent(key(name, arguments), key -> visible(type).stream()
                .flatMap(open -> declared(open, name, arguments, false).stream())
                .findFirst());
    }

    private static List<Class<?>> visible(Class<?> type) {
        List<Class<?>> all = new ArrayList<>();
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            all.add(each);
        }
        // Also those that were added on the way.
        for (int at = 0; at < all.size(); at++) {
            for (Class<?> each : all.get(at).getInterfaces()) {
                if (!all.contains(each)) {
                    all.add(each);
                }
            }
        }
        all.removeIf(each -> !Modifier.isPublic(each.getModifiers())
                || !each.getModule().isExported(each.getPackageName()));
        return all;
    }

    private static Optional<Method> declared(Class<?> open, String name, Object[] arguments, boolean isStatic) {
        for (Method method : open.getMethods()) {
            if (method.getName().equals(name)
                    && Modifier.isStatic(method.getModifiers()) == isStatic
                    && Modifier.isPublic(method.getDeclaringClass().getModifiers())
                    && takes(method.getParameterTypes(), arguments)) {
                return Optional.of(method);
            }
        }
        return Optional.empty();
    }

    private static boolean takes(Class<?>[] types, Object[] arguments) {
        boolean fits = types.length == arguments.length;
        for (int at = 0; fits && at < types.length; at++) {
            Class<?> type = types[at];
            fits = arguments[at] == null ? !type.isPrimitive() : boxed(type).isInstance(arguments[at]);
        }
        return fits;
    }

    /** Only what is passed here: numbers and yes or no. */
    private static Class<?> boxed(Class<?> type) {
        if (type == int.class) {
            return Integer.class;
        }
        if (type == long.class) {
            return Long.class;
        }
        return type == boolean.class ? Boolean.class : type;
    }
}
