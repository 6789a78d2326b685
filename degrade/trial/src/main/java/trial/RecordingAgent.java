package trial;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.instrument.UnmodifiableClassException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.ProtectionDomain;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Set;
import java.util.TreeSet;

/**
 * An agent of somebody else's that changes nothing: it notes which class files the JVM takes. It sees what agents before it have made of them,
 * when it comes and whenever anybody changes these classes from then on.
 *
 * <p>Its argument is a name for what it notes, and the classes. The last class file of each is the system property NAME:CLASS, as a digest.
 */
public final class RecordingAgent implements ClassFileTransformer {
    private final String name;
    private final Set<String> classNames;

    private RecordingAgent(String name, Set<String> classNames) {
        this.name = name;
        this.classNames = classNames;
    }

    public static void agentmain(String arguments, Instrumentation instrumentation) throws UnmodifiableClassException {
        String[] words = arguments.split(" ");
        Set<String> classNames = new TreeSet<>(Arrays.asList(words).subList(1, words.length));
        instrumentation.addTransformer(new RecordingAgent(words[0], classNames), true);
        for (Class<?> loaded : instrumentation.getAllLoadedClasses()) {
            if (classNames.contains(loaded.getName())) {
                instrumentation.retransformClasses(loaded);
            }
        }
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String internalName, Class<?> redefined, ProtectionDomain domain, byte[] classFile) {
        String className = internalName == null ? "" : internalName.replace('/', '.');
        if (classNames.contains(className)) {
            System.setProperty(name + ":" + className, digest(classFile));
        }
        return null;
    }

    public static String digest(byte[] classFile) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(classFile));
        } catch (NoSuchAlgorithmException missing) {
            throw new IllegalStateException(missing);
        }
    }
}
