package quartier.degrade.weave;

import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;

/** Loads classes anew from where the test's own loader finds them, each through a weaver. */
final class Loading extends ClassLoader {
    private final String prefix;
    private final UnaryOperator<byte[]> weaver;

    Loading(String prefix, UnaryOperator<byte[]> weaver) {
        super(Loading.class.getClassLoader());
        this.prefix = prefix;
        this.weaver = weaver;
    }

    /** With yield points; each is added to {@code points}. */
    static Loading yielding(String prefix, List<Point> points) {
        return new Loading(prefix, classFile -> new YieldWeaver(false).weave(classFile, points::add));
    }

    static Loading yielding(Class<?> sample) {
        return yielding(sample.getName(), new ArrayList<>());
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!name.startsWith(prefix)) {
            return super.loadClass(name, resolve);
        }
        Class<?> loaded = findLoadedClass(name);
        if (loaded != null) {
            return loaded;
        }
        try (InputStream stream = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
            if (stream == null) {
                throw new ClassNotFoundException(name);
            }
            byte[] original = stream.readAllBytes();
            byte[] woven = weaver.apply(original);
            byte[] used = woven == null ? original : woven;
            return defineClass(name, used, 0, used.length);
        } catch (IOException thrown) {
            throw new ClassNotFoundException(name, thrown);
        }
    }
}
