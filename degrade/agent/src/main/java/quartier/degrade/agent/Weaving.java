package quartier.degrade.agent;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.instrument.UnmodifiableClassException;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import quartier.degrade.config.Config;
import quartier.degrade.core.Glob;
import quartier.degrade.servers.Entries;
import quartier.degrade.weave.EntryWeaver;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.TaskWeaver;
import quartier.degrade.weave.YieldWeaver;

/** Which classes are woven, now and as they are loaded, and unwoven. */
final class Weaving implements ClassFileTransformer {
    /** What our own slow path runs on, and we: a point there would call itself. */
    private static final List<String> NEVER = List.of("java.", "jdk.", "sun.", "quartier.degrade.");
    /** What is woven only if the file names it: it serves requests, and does not spend their time. */
    private static final List<String> UNLESS_NAMED = List.of(
            "javax.", "jakarta.", "com.sun.", "org.apache.catalina.", "org.apache.coyote.", "org.apache.tomcat.",
            "org.apache.naming.", "org.eclipse.jetty.", "org.springframework.", "org.slf4j.", "ch.qos.logback.",
            "org.apache.logging.", "org.apache.juli.");

    private final Instrumentation instrumentation;
    private final List<Glob> include;
    private final List<Glob> exclude;
    private final YieldWeaver weaver;
    private final AtomicLong nrPoints = new AtomicLong();
    private final AtomicLong nrClasses = new AtomicLong();
    private final AtomicLong nrRefused = new AtomicLong();

    Weaving(Config config, Instrumentation instrumentation) {
        this.instrumentation = instrumentation;
        this.include = config.include();
        this.exclude = config.exclude();
        this.weaver = new YieldWeaver(config.leafLoops());
    }

    void begin() {
        instrumentation.addTransformer(this, true);
        retransform();
    }

    void end() {
        instrumentation.removeTransformer(this);
        retransform();
    }

    private void retransform() {
        List<Class<?>> selected = new ArrayList<>();
        for (Class<?> loaded : instrumentation.getAllLoadedClasses()) {
            if (instrumentation.isModifiableClass(loaded)
                    && !loaded.isInterface() && !loaded.isHidden()
                    && (isOurs(loaded.getName().replace('.', '/'), loaded.getClassLoader())
                            || isSelected(loaded.getName(), loaded.getClassLoader()))) {
                selected.add(loaded);
            }
        }
        // All at once, for each time stops every thread; if one of them will not, each by itself.
        if (!retransform(selected.toArray(Class<?>[]::new))) {
            for (Class<?> each : selected) {
                if (!retransform(each)) {
                    nrRefused.incrementAndGet();
                }
            }
        }
    }

    private boolean retransform(Class<?>... classes) {
        try {
            if (classes.length > 0) {
                instrumentation.retransformClasses(classes);
            }
            return true;
        } catch (UnmodifiableClassException | LinkageError | UnsupportedOperationException refused) {
            return false;
        }
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String internalName, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        if (internalName == null) {
            return null;
        }
        String name = internalName.replace('/', '.');
        try {
            if (isOurs(internalName, loader)) {
                return weaveOurs(internalName, name, classFile);
            }
            return isSelected(name, loader) ? weave(classFile) : null;
        } catch (RuntimeException refused) {
            // A class file newer than the weaver knows, or a method that would get too long: it stays as it is.
            nrRefused.incrementAndGet();
            return null;
        }
    }

    private byte[] weave(byte[] classFile) {
        List<Object> points = new ArrayList<>();
        byte[] woven = weaver.weave(classFile, points::add);
        if (woven != null) {
            nrClasses.incrementAndGet();
            nrPoints.addAndGet(points.size());
        }
        return woven;
    }

    /** Whether it is woven whatever the file says: where requests begin and end, and where work is handed over. */
    private static boolean isOurs(String internalName, ClassLoader loader) {
        return !Entries.of(internalName).isEmpty() || loader == null && TaskWeaver.OWNERS.contains(internalName);
    }

    private static byte[] weaveOurs(String internalName, String name, byte[] classFile) {
        List<Entry> entries = Entries.of(internalName);
        if (entries.isEmpty()) {
            byte[] woven = TaskWeaver.weave(classFile);
            if (woven == null) {
                Say.say(name + " is not as in any JDK that is known: work that requests hand to it is not followed");
            }
            return woven;
        }
        byte[] woven = EntryWeaver.weave(classFile, entries);
        if (woven == null) {
            Entry entry = entries.get(0);
            Say.say(name + " has no " + entry.method() + (entry.descriptor() == null ? "" : entry.descriptor())
                    + ": this version of " + entry.server() + " is not known, and its requests are not seen rightly");
        }
        return woven;
    }

    private boolean isSelected(String name, ClassLoader loader) {
        if (startsWithAny(name, NEVER) || exclude.stream().anyMatch(glob -> glob.fits(name))) {
            return false;
        }
        if (!include.isEmpty()) {
            return include.stream().anyMatch(glob -> glob.fits(name));
        }
        boolean fromJdk = loader == null || loader == ClassLoader.getPlatformClassLoader();
        return !fromJdk && !startsWithAny(name, UNLESS_NAMED);
    }

    private static boolean startsWithAny(String name, List<String> prefixes) {
        for (String prefix : prefixes) {
            if (name.startsWith(prefix)) {
                return true;
            }
        }
        return false;
    }

    long nrPoints() {
        return nrPoints.get();
    }

    long nrClasses() {
        return nrClasses.get();
    }

    long nrRefused() {
        return nrRefused.get();
    }
}
