package quartier.degrade.weave;

import java.util.Set;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;

/**
 * Counts what a method holds: monitors, locks, and the lock of a class that is being initialised.
 *
 * <p>A count goes up before a monitor is taken and down before it is given back. A call between monitorenter and
 * the begin of its handler could overflow the stack there, and the monitor would stay taken.
 */
final class HeldLocks {
    private static final String LOCKS = "java/util/concurrent/locks/";
    private static final String STAMPED = LOCKS + "StampedLock";
    /**
     * What {@code Lock} has, whoever is called: which classes are locks is not known where they are not loaded yet, and what looks
     * like one and is none costs a request some yields at most.
     */
    private static final Set<String> OF_LOCKS = Set.of(
            "lock()V",
            "lockInterruptibly()V",
            "tryLock()Z",
            "tryLock(JLjava/util/concurrent/TimeUnit;)Z",
            "unlock()V");
    private static final Set<String> TAKING = Set.of("lock", "readLock", "writeLock");
    private static final Set<String> TAKING_OR_THROWING =
            Set.of("lockInterruptibly", "readLockInterruptibly", "writeLockInterruptibly");
    private static final Set<String> TRYING = Set.of("tryLock", "tryReadLock", "tryWriteLock");
    private static final Set<String> GIVING = Set.of("unlock", "unlockRead", "unlockWrite");

    private HeldLocks() {}

    static boolean count(ClassNode owner, MethodNode method) {
        boolean changed = false;
        for (AbstractInsnNode insn : method.instructions.toArray()) {
            changed |= countMonitor(method, insn);
            if (insn instanceof MethodInsnNode call && isOfLock(call)) {
                changed |= countLock(method, call);
            }
        }
        boolean wholeMethod =
                (method.access & Opcodes.ACC_SYNCHRONIZED) != 0 || method.name.equals("<clinit>");
        if (wholeMethod) {
            LabelNode begin = new LabelNode();
            method.instructions.insert(begin);
            method.instructions.insertBefore(begin, Insns.gate("hold", "()V"));
            Insns.atEveryEnd(owner, method, begin, "release");
        }
        return changed || wholeMethod;
    }

    private static boolean countMonitor(MethodNode method, AbstractInsnNode insn) {
        if (insn.getOpcode() == Opcodes.MONITORENTER) {
            method.instructions.insertBefore(insn, Insns.gate("hold", "()V"));
        } else if (insn.getOpcode() == Opcodes.MONITOREXIT) {
            method.instructions.insertBefore(insn, Insns.gate("release", "()V"));
        } else {
            return false;
        }
        return true;
    }

    private static boolean isOfLock(MethodInsnNode call) {
        return call.owner.equals(STAMPED)
                || call.getOpcode() != Opcodes.INVOKESTATIC && OF_LOCKS.contains(call.name + call.desc);
    }

    private static boolean countLock(MethodNode method, MethodInsnNode call) {
        if (TAKING.contains(call.name)) {
            method.instructions.insertBefore(call, Insns.gate("hold", "()V"));
        } else if (TAKING_OR_THROWING.contains(call.name)) {
            method.instructions.insert(call, Insns.gate("hold", "()V"));
        } else if (TRYING.contains(call.name)) {
            // Whether it was taken is on the stack: a boolean, or a stamp.
            String type = call.desc.substring(call.desc.indexOf(')') + 1);
            method.instructions.insert(call, Insns.gate("held", "(" + type + ")" + type));
        } else if (GIVING.contains(call.name)) {
            // Afterwards: an application's own lock may have a point before it gives anything back.
            method.instructions.insert(call, Insns.gate("release", "()V"));
        } else {
            return false;
        }
        return true;
    }
}
