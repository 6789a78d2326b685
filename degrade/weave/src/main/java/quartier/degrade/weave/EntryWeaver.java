package quartier.degrade.weave;

import java.util.List;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.FrameNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.InsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.VarInsnNode;

/** Makes methods of a server the beginning and the end of a request, and what is between. */
public final class EntryWeaver {
    /** What a method of a server is to a request. */
    public enum Kind {
        /** Serves one. Its parameters: the request, the response or what is both, and perhaps more. */
        SERVE,
        /** Goes on with one that was away: its object. */
        RESUME,
        /** Is called once one is complete: its object. */
        FINISH,
        /** Handles this thread's: its object. */
        HANDLE,
        /** Has this thread's handled: by its last parameter. */
        DELEGATE,
        /** Sends a connection its answer, or a part of one: its object. */
        ANSWER,
        /** Has looks find a connection, of which nothing more can be read: its object. */
        AWAIT,
        /** In it, a thread looks which connections have something to be read: its object. */
        LOOK,
        /** A thread goes on through what the last look has found: the same object. */
        SELECT,
        /** It has come to a connection: its object. */
        SELECTED
    }

    /**
     * A method that matters.
     *
     * @param owner internal name of the class
     * @param descriptor null for any
     */
    public record Entry(Kind kind, String server, String owner, String method, String descriptor) {
        private boolean isMethod(MethodNode candidate) {
            return candidate.name.equals(method)
                    && (descriptor == null || candidate.desc.equals(descriptor))
                    && (candidate.access & Opcodes.ACC_SYNTHETIC) == 0
                    && candidate.instructions.size() > 0;
        }
    }

    private static final String STEPS = "quartier/degrade/gate/ConnectionStep";

    private EntryWeaver() {}

    /** The woven class, or null if it lacks one of these: another version of the server, perhaps. */
    public static byte[] weave(byte[] classFile, List<Entry> entries) {
        ClassReader reader = new ClassReader(classFile);
        ClassNode owner = new ClassNode();
        reader.accept(owner, 0);
        for (Entry entry : entries) {
            List<MethodNode> methods = owner.methods.stream().filter(entry::isMethod).toList();
            if (methods.isEmpty()) {
                return null;
            }
            methods.forEach(method -> weave(owner, method, entry));
        }
        ClassWriter writer = new ClassWriter(reader, 0);
        owner.accept(writer);
        return writer.toByteArray();
    }

    private static void weave(ClassNode owner, MethodNode method, Entry entry) {
        method.maxStack = Math.max(method.maxStack, 4);
        switch (entry.kind) {
            case SERVE -> serve(owner, method, entry.server);
            case RESUME -> around(owner, method, told("resume", entry.server, 0), "end");
            case FINISH -> method.instructions.insert(told("finish", entry.server, 0));
            case HANDLE -> method.instructions.insert(told("handler", entry.server, 0));
            case DELEGATE -> method.instructions.insert(told("handler", entry.server, lastParameter(method)));
            case ANSWER -> method.instructions.insert(connection("ANSWERS"));
            case AWAIT -> method.instructions.insert(connection("AWAITS"));
            case LOOK -> around(owner, method, connection("LOOKS"), "looked");
            case SELECT -> method.instructions.insert(connection("SELECTS"));
            case SELECTED -> method.instructions.insert(connection("SELECTED"));
            default -> throw new AssertionError(entry);
        }
    }

    private static int lastParameter(MethodNode method) {
        Type[] types = Type.getArgumentTypes(method.desc);
        int slot = Insns.firstParameter(method);
        for (int at = 0; at < types.length - 1; at++) {
            slot += types[at].getSize();
        }
        return slot;
    }

    private static InsnList told(String gateMethod, String server, int slot) {
        InsnList told = new InsnList();
        told.add(new LdcInsnNode(server));
        told.add(new VarInsnNode(Opcodes.ALOAD, slot));
        told.add(Insns.gate(gateMethod, "(Ljava/lang/String;Ljava/lang/Object;)V"));
        return told;
    }

    /** The method's own object, and what is done with it. */
    private static InsnList connection(String step) {
        InsnList told = new InsnList();
        told.add(new FieldInsnNode(Opcodes.GETSTATIC, STEPS, step, "L" + STEPS + ";"));
        told.add(new VarInsnNode(Opcodes.ALOAD, 0));
        told.add(Insns.gate("connection", "(L" + STEPS + ";Ljava/lang/Object;)V"));
        return told;
    }

    private static void around(ClassNode owner, MethodNode method, InsnList begin, String end) {
        LabelNode from = new LabelNode();
        method.instructions.insert(from);
        Insns.atEveryEnd(owner, method, from, end);
        method.instructions.insert(begin);
    }

    private static void serve(ClassNode owner, MethodNode method, String server) {
        int nrParameters = Type.getArgumentTypes(method.desc).length;
        int request = Insns.firstParameter(method);
        int response = nrParameters > 1 ? request + 1 : request;
        LabelNode admitted = new LabelNode();
        InsnList begin = new InsnList();
        begin.add(new LdcInsnNode(server));
        begin.add(new VarInsnNode(Opcodes.ALOAD, request));
        begin.add(new VarInsnNode(Opcodes.ALOAD, response));
        begin.add(nrParameters > 2 ? new VarInsnNode(Opcodes.ALOAD, request + 2) : new InsnNode(Opcodes.ACONST_NULL));
        begin.add(Insns.gate(
                "begin", "(Ljava/lang/String;Ljava/lang/Object;Ljava/lang/Object;Ljava/lang/Object;)Z"));
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
