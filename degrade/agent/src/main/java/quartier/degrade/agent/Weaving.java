package quartier.degrade.agent;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.instrument.UnmodifiableClassException;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import quartier.degrade.config.Config;
import quartier.degrade.core.Glob;
import quartier.degrade.gate.Gate;
import quartier.degrade.servers.Entries;
import quartier.degrade.weave.EntryWeaver;
import quartier.degrade.weave.EntryWeaver.Entry;
import quartier.degrade.weave.Point;
import quartier.degrade.weave.PointChoice;
import quartier.degrade.weave.TaskWeaver;
import quartier.degrade.weave.YieldWeaver;

/** Which classes are woven, now and as they are loaded, and unwoven. */
final class Weaving implements ClassFileTransformer {
    /** What is woven only if the file names it: it serves requests, and does not spend their time. */
    private static final List<String> UNLESS_NAMED = List.of(
            "javax.", "jakarta.", "com.sun.", "org.apache.catalina.", "org.apache.coyote.", "org.apache.tomcat.",
            "org.apache.naming.", "org.eclipse.jetty.", "org.springframework.", "org.slf4j.", "ch.qos.logback.",
            "org.apache.logging.", "org.apache.juli.");

    private final Instrumentation instrumentation;
    private final List<Glob> include;
    private final List<Glob> exclude;
    private final boolean leafLoops;
    private final Points points;
    private final long profileNanos;
    /** One of these two at a time; null for neither. */
    private PointProfile profile;
    private PointWatch watch;
    private volatile YieldWeaver weaver;
    private volatile boolean ended;
    private final AtomicLong nrPoints = new AtomicLong();
    private final AtomicLong nrClasses = new AtomicLong();
    private final AtomicLong nrRefused = new AtomicLong();

    Weaving(Config config, Instrumentation instrumentation) {
        this.instrumentation = instrumentation;
        this.include = config.include();
        this.exclude = config.exclude();
        this.leafLoops = config.leafLoops();
        this.profileNanos = config.profileNanos();
        if (profileNanos > 0) {
            points = new Points(Points.By.PROFILE_UNDER_WAY);
            profile = new PointProfile(profileNanos, null, this::choose, this::giveUp);
            weaver = new YieldWeaver(leafLoops, point -> true, points::number);
        } else {
            points = new Points(config.points().isEmpty() ? Points.By.RULE : Points.By.FILE);
            Set<String> named = config.points();
            weaver = new YieldWeaver(leafLoops, point -> named.isEmpty() || point.isNamedIn(named), null);
        }
    }

    void begin() {
        Gate.load();
        instrumentation.addTransformer(this, true);
        retransform();
        if (profile != null) {
            profile.start();
        }
    }

    void end() {
        ended = true;
        synchronized (this) {
            if (profile != null) {
                profile.stop();
            }
            if (watch != null) {
                watch.stop();
            }
            instrumentation.removeTransformer(this);
            retransform();
        }
    }

    /** The profile is over: these are the points that it chose. */
    private synchronized void choose(PointChoice choice) {
        if (ended) {
            return;
        }
        points.choose(choice);
        weaveWithoutCounts();
        watch = new PointWatch(place -> points.isUnseen(place.className(), place.method(), place.line()), this::profileAgain);
        watch.start();
        Say.say(String.format(Locale.ROOT, "%d yield points chosen by a profile: %.1f %% of %d milliseconds of CPU time"
                + " pass one or come to one soon; `quartier degrade points %d` lists them",
                nrPoints(), 100 * choice.coveredPart(), choice.nrWindows(), ProcessHandle.current().pid()));
    }

    /** The profile is over, and has chosen none. */
    private synchronized void giveUp(String why) {
        if (ended) {
            return;
        }
        Say.say(points.giveUp(why));
        weaveWithoutCounts();
    }

    private void weaveWithoutCounts() {
        profile = null;
        weave(new YieldWeaver(leafLoops, points::isChosen, null));
    }

    /** Code has got hot that the profile did not see. What it left out stays left out. */
    private synchronized void profileAgain() {
        if (ended) {
            return;
        }
        Say.say("code runs that the profile of yield points has not seen: they are counted once more");
        watch = null;
        weave(new YieldWeaver(leafLoops, points::isChosen, points::number));
        profile = new PointProfile(profileNanos, points.choice(), this::choose, this::giveUp);
        profile.start();
    }

    private void weave(YieldWeaver otherwise) {
        weaver = otherwise;
        nrPoints.set(0);
        nrClasses.set(0);
        retransform();
    }

    Points points() {
        return points;
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
        List<Point> added = new ArrayList<>();
        byte[] woven = weaver.weave(classFile, added::add);
        if (woven != null) {
            added.forEach(points::number);
            nrClasses.incrementAndGet();
            nrPoints.addAndGet(added.size());
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
                    + ": this version of " + entry.server() + " is not known, and its requests are not seen rightly"
                    + " (or, if that is where it looks for connections, later than it is thought)");
        }
        return woven;
    }

    private boolean isSelected(String name, ClassLoader loader) {
        if (startsWithAny(name, Config.NEVER_WOVEN) || exclude.stream().anyMatch(glob -> glob.fits(name))) {
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
