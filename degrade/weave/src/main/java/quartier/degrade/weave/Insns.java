package quartier.degrade.weave;

import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TryCatchBlockNode;

/** What all weavers put into methods. */
final class Insns {
    private static final String GATE = "quartier/degrade/gate/Gate";
    private static final String TALLY = "quartier/degrade/gate/Tally";
    /** From this version on the verifier wants frames where paths meet. */
    private static final int FIRST_WITH_FRAMES = Opcodes.V1_6;

    private Insns() {}

    static MethodInsnNode gate(String method, String descriptor) {
        return new MethodInsnNode(Opcodes.INVOKESTATIC, GATE, method, descriptor, false);
    }

    /** Counts the number on the stack. */
    static MethodInsnNode tally() {
        return new MethodInsnNode(Opcodes.INVOKESTATIC, TALLY, "pass", "(I)V", false);
    }

    static boolean needsFrames(ClassNode owner) {
        return (owner.version & 0xffff) >= FIRST_WITH_FRAMES;
    }

    /** Where the first parameter is. */
    static int firstParameter(MethodNode method) {
        return (method.access & Opcodes.ACC_STATIC) != 0 ? 0 : 1;
    }

    static boolean isReturn(int opcode) {
        return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
    }

    /** Calls {@code exit} however the method ends; what is before {@code from} is not covered. */
    static void atEveryEnd(ClassNode owner, MethodNode method, LabelNode from, String exit) {
        for (var insn : method.instructions.toArray()) {
            if (isReturn(insn.getOpcode())) {
                method.instructions.insertBefore(insn, gate(exit, "()V"));
            }
        }
        LabelNode handler = new LabelNode();
        InsnList end = new InsnList();
        end.add(handler);
        if (needsFrames(owner)) {
            // No local is used any more, so none needs a type, and all frames agree with that.
            end.add(new FrameNode(Opcodes.F_FULL, 0, new Object[0], 1, new Object[] {"java/lang/Throwable"}));
        }
        end.add(gate(exit, "()V"));
        end.add(new InsnNode(Opcodes.ATHROW));
        method.instructions.add(end);
        // The last, so that the method's own handlers come first.
        method.tryCatchBlocks.add(new TryCatchBlockNode(from, handler, handler, null));
        method.maxStack = Math.max(method.maxStack, 1);
    }
}
