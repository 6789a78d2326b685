package quartier.degrade.weave;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * Follows work from the thread that hands it over to the one that runs it, in the JDK's executors. A task is noted
 * where it is handed over, and is looked up where it is run: the object in the queue stays the user's own, so
 * {@code remove}, {@code getQueue}, a comparator of the queue and what a subclass overrides see what they always saw.
 */
public final class TaskWeaver {
    private static final String POOL = "java/util/concurrent/ThreadPoolExecutor";
    private static final String SCHEDULED_POOL = "java/util/concurrent/ScheduledThreadPoolExecutor";
    private static final String FORK_JOIN_TASK = "java/util/concurrent/ForkJoinTask";
    private static final String VIRTUAL_THREAD = "java/lang/VirtualThread";
    /** What takes its tasks where there are too few CPUs for the common pool; not in every JDK. */
    private static final String FUTURE_THREADS = "java/util/concurrent/CompletableFuture$ThreadPerTaskExecutor";
    private static final String RUNNABLE = "java/lang/Runnable";

    /** Internal names. Virtual threads are not in every JDK. */
    public static final Set<String> OWNERS =
            Set.of(POOL, SCHEDULED_POOL, FORK_JOIN_TASK, FUTURE_THREADS, VIRTUAL_THREAD);

    private TaskWeaver() {}

    /** The woven class, or null if it is not as any JDK's that is known. */
    public static byte[] weave(byte[] classFile) {
        ClassReader reader = new ClassReader(classFile);
        ClassNode owner = new ClassNode();
        reader.accept(owner, 0);
        boolean known = switch (owner.name) {
            case POOL -> handOverFirst(owner, "execute") && runOthers(owner);
            case SCHEDULED_POOL -> handOverFirst(owner, "delayedExecute");
            case FORK_JOIN_TASK -> handOverSelf(owner) && runSelf(owner, "doExec");
            case FUTURE_THREADS -> runInThread(owner);
            case VIRTUAL_THREAD -> handOverSelf(owner) && runAsThread(owner);
            default -> throw new IllegalArgumentException(owner.name);
        };
        if (!known) {
            return null;
        }
        ClassWriter writer = new ClassWriter(reader, 0);
        owner.accept(writer);
        return writer.toByteArray();
    }

    private static List<MethodNode> methods(ClassNode owner, String name) {
        return owner.methods.stream()
                .filter(method -> method.name.equals(name) && method.instructions.size() > 0)
                .toList();
    }

    private static InsnList told(int slot, String gateMethod) {
        InsnList told = new InsnList();
        told.add(new VarInsnNode(Opcodes.ALOAD, slot));
        told.add(Insns.gate(gateMethod, "(Ljava/lang/Object;)V"));
        return told;
    }

    /** A method whose first parameter is handed over. */
    private static boolean handOverFirst(ClassNode owner, String name) {
        List<MethodNode> methods = methods(owner, name);
        for (MethodNode method : methods) {
            method.instructions.insert(told(1, "handOver"));
            method.maxStack = Math.max(method.maxStack, 1);
        }
        return !methods.isEmpty();
    }

    /** A class whose objects are handed over by whoever makes them. */
    private static boolean handOverSelf(ClassNode owner) {
        for (MethodNode method : methods(owner, "<init>")) {
            for (AbstractInsnNode insn : method.instructions.toArray()) {
                if (insn.getOpcode() == Opcodes.RETURN) {
                    method.instructions.insertBefore(insn, told(0, "handOver"));
                }
            }
            // Nothing is on the stack when it returns, so what the constructor needs is enough.
            method.maxStack = Math.max(method.maxStack, 1);
        }
        return true;
    }

    /** A method that runs tasks: what it calls is the task, or the task as a part of a request. */
    private static boolean runOthers(ClassNode owner) {
        InsnList asPart = new InsnList();
        asPart.add(new InsnNode(Opcodes.DUP));
        asPart.add(gateTask());
        return beforeCalls(methods(owner, "runWorker"), "run", "()V", asPart);
    }

    /**
     * A virtual thread, which runs what it was made with. It does so by a call; before that it has not begun, as far
     * as debuggers are concerned, and must not wait.
     */
    private static boolean runAsThread(ClassNode owner) {
        InsnList asPart = new InsnList();
        asPart.add(new VarInsnNode(Opcodes.ALOAD, 0));
        asPart.add(new InsnNode(Opcodes.SWAP));
        asPart.add(gateTask());
        return beforeCalls(methods(owner, "run"), "runWith", "(Ljava/lang/Object;L" + RUNNABLE + ";)V", asPart);
    }

    /** Puts this before every call of that, for which a task is on top of the stack. False if there is none. */
    private static boolean beforeCalls(List<MethodNode> methods, String name, String descriptor, InsnList asPart) {
        boolean found = false;
        for (MethodNode method : methods) {
            for (AbstractInsnNode insn : method.instructions.toArray()) {
                if (insn instanceof MethodInsnNode call && call.name.equals(name) && call.desc.equals(descriptor)) {
                    method.instructions.insertBefore(call, copy(asPart));
                    method.maxStack++;
                    found = true;
                }
            }
        }
        return found;
    }

    private static InsnList copy(InsnList insns) {
        InsnList copy = new InsnList();
        for (AbstractInsnNode insn : insns) {
            copy.add(insn.clone(Map.of()));
        }
        return copy;
    }

    private static MethodInsnNode gateTask() {
        return Insns.gate("task", "(Ljava/lang/Object;L" + RUNNABLE + ";)L" + RUNNABLE + ";");
    }

    /** A method that runs its own object. */
    private static boolean runSelf(ClassNode owner, String name) {
        List<MethodNode> methods = methods(owner, name);
        for (MethodNode method : methods) {
            LabelNode from = new LabelNode();
            method.instructions.insert(from);
            Insns.atEveryEnd(owner, method, from, "endTask");
            method.instructions.insert(told(0, "beginTask"));
        }
        return !methods.isEmpty();
    }

    /** What is given a task and starts a thread with it. */
    private static boolean runInThread(ClassNode owner) {
        List<MethodNode> methods = methods(owner, "execute");
        for (MethodNode method : methods) {
            InsnList asPart = new InsnList();
            asPart.add(new VarInsnNode(Opcodes.ALOAD, 1));
            asPart.add(new InsnNode(Opcodes.DUP));
            asPart.add(gateTask());
            asPart.add(new VarInsnNode(Opcodes.ASTORE, 1));
            method.instructions.insert(asPart);
            method.maxStack = Math.max(method.maxStack, 2);
        }
        return !methods.isEmpty();
    }
}
