package quartier.degrade.weave;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.VarInsnNode;

/** Makes a server's method the beginning and the end of a request. */
public final class EntryWeaver {
    /**
     * A method that serves one request. Its first parameter is the request; the response is the second, or the
     * request is both.
     *
     * @param owner internal name of the class
     */
    public record Entry(String server, String owner, String method, String descriptor) {}

    private EntryWeaver() {}

    /** The woven class, or null if it has no such method: another version of the server, perhaps. */
    public static byte[] weave(byte[] classFile, Entry entry) {
        ClassReader reader = new ClassReader(classFile);
        ClassNode owner = new ClassNode();
        reader.accept(owner, 0);
        boolean found = false;
        for (MethodNode method : owner.methods) {
            if (method.name.equals(entry.method)
                    && method.desc.equals(entry.descriptor)
                    && method.instructions.size() > 0) {
                weave(owner, method, entry.server);
                found = true;
            }
        }
        if (!found) {
            return null;
        }
        ClassWriter writer = new ClassWriter(reader, 0);
        owner.accept(writer);
        return writer.toByteArray();
    }

    private static void weave(ClassNode owner, MethodNode method, String server) {
        int first = (method.access & Opcodes.ACC_STATIC) != 0 ? 0 : 1;
        int second = Type.getArgumentTypes(method.desc).length > 1 ? first + 1 : first;
        LabelNode admitted = new LabelNode();
        InsnList begin = new InsnList();
        begin.add(new LdcInsnNode(server));
        begin.add(new VarInsnNode(Opcodes.ALOAD, first));
        begin.add(new VarInsnNode(Opcodes.ALOAD, second));
        begin.add(Insns.gate("begin", "(Ljava/lang/String;Ljava/lang/Object;Ljava/lang/Object;)Z"));
        begin.add(new JumpInsnNode(Opcodes.IFNE, admitted));
        for (InsnNode insn : sentAway(Type.getReturnType(method.desc))) {
            begin.add(insn);
        }
        begin.add(admitted);
        if (Insns.needsFrames(owner) && !beginsWithFrame(method)) {
            begin.add(new FrameNode(Opcodes.F_SAME, 0, null, 0, null));
        }
        // The method's own returns, not the one that has begun nothing: so the ends are woven first.
        LabelNode from = new LabelNode();
        method.instructions.insert(from);
        Insns.atEveryEnd(owner, method, from, "end");
        method.instructions.insert(begin);
        method.maxStack = Math.max(method.maxStack, 3);
    }

    /** A loop that begins with the method has its frame there, and two frames in one place are none. */
    private static boolean beginsWithFrame(MethodNode method) {
        for (var insn : method.instructions) {
            if (insn instanceof FrameNode) {
                return true;
            }
            if (insn.getOpcode() >= 0) {
                return false;
            }
        }
        return false;
    }

    /** What returns from an entry whose request was answered by us: a server's "handled" is true. */
    private static InsnNode[] sentAway(Type returned) {
        return switch (returned.getSort()) {
            case Type.VOID -> new InsnNode[] {new InsnNode(Opcodes.RETURN)};
            case Type.BOOLEAN -> new InsnNode[] {new InsnNode(Opcodes.ICONST_1), new InsnNode(Opcodes.IRETURN)};
            default -> throw new IllegalArgumentException("an entry returns nothing or a boolean, not " + returned);
        };
    }
}
