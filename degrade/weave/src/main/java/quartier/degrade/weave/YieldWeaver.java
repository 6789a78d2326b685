package quartier.degrade.weave;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.ToIntFunction;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InsnList;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LdcInsnNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;

/**
 * Puts yield points into a class, and counts the monitors and locks that it holds. Only calls are inserted, no
 * members, so a loaded class can be woven too, and unwoven.
 */
public final class YieldWeaver {
    private final boolean leafLoops;
    private final Predicate<Point> wanted;
    private final ToIntFunction<Point> numbers;

    /**
     * @param leafLoops whether innermost loops without calls get points as well: a point there keeps the compiler
     *     from unrolling and vectorising
     */
    public YieldWeaver(boolean leafLoops) {
        this(leafLoops, point -> true, null);
    }

    /**
     * @param wanted which of the points that the rule gives there are to be
     * @param numbers each is counted under its number; null to count none
     */
    public YieldWeaver(boolean leafLoops, Predicate<Point> wanted, ToIntFunction<Point> numbers) {
        this.leafLoops = leafLoops;
        this.wanted = wanted;
        this.numbers = numbers;
    }

    /** The woven class, or null if there is nothing to weave. Each point is told to {@code points}. */
    public byte[] weave(byte[] classFile, Consumer<Point> points) {
        ClassReader reader = new ClassReader(classFile);
        if ((reader.getAccess() & Opcodes.ACC_MODULE) != 0) {
            return null;
        }
        ClassNode owner = new ClassNode();
        reader.accept(owner, 0);
        boolean changed = false;
        for (MethodNode method : owner.methods) {
            if (method.instructions.size() > 0) {
                // Points first: what is inserted afterwards is no call of the method's own.
                changed |= addPoints(owner, method, points);
                changed |= HeldLocks.count(owner, method);
            }
        }
        if (!changed) {
            return null;
        }
        ClassWriter writer = new ClassWriter(reader, 0);
        owner.accept(writer);
        return writer.toByteArray();
    }

    /** A jump backwards: from where, to where, by position. */
    private record Loop(int first, int last, AbstractInsnNode jump) {
        boolean contains(Loop other) {
            return other != this && first <= other.first && other.last <= last;
        }
    }

    private boolean addPoints(ClassNode owner, MethodNode method, Consumer<Point> points) {
        if (method.name.equals("<clinit>")) {
            return false;
        }
        List<Loop> loops = loops(method);
        int[] nrCallsBefore = nrCallsBefore(method);
        boolean calls = nrCallsBefore[nrCallsBefore.length - 1] > 0;
        boolean changed = false;
        for (Loop loop : loops) {
            boolean leaf = nrCallsBefore[loop.last] == nrCallsBefore[loop.first]
                    && loops.stream().noneMatch(loop::contains);
            Point point = new Point(dotted(owner.name), method.name, line(loop.jump), Point.Kind.LOOP);
            if ((!leaf || leafLoops) && wanted.test(point)) {
                points.accept(point);
                method.instructions.insertBefore(loop.jump, insns(point));
                changed = true;
            }
        }
        // A constructor always calls another, and recursion through constructors is rare.
        Point entry = new Point(dotted(owner.name), method.name, firstLine(method), Point.Kind.ENTRY);
        if ((calls || !loops.isEmpty()) && !method.name.equals("<init>") && wanted.test(entry)) {
            points.accept(entry);
            method.instructions.insert(insns(entry));
            changed = true;
        }
        if (changed && numbers != null) {
            // A number on top of whatever is there.
            method.maxStack++;
        }
        return changed;
    }

    private InsnList insns(Point point) {
        InsnList insns = new InsnList();
        if (numbers != null) {
            insns.add(new LdcInsnNode(numbers.applyAsInt(point)));
            insns.add(Insns.tally());
        }
        insns.add(Insns.gate("point", "()V"));
        return insns;
    }

    private static List<Loop> loops(MethodNode method) {
        Map<AbstractInsnNode, Integer> positions = new HashMap<>();
        for (AbstractInsnNode insn : method.instructions) {
            positions.put(insn, positions.size());
        }
        List<Loop> loops = new ArrayList<>();
        for (AbstractInsnNode insn : method.instructions) {
            int last = positions.get(insn);
            targets(insn).stream()
                    .mapToInt(positions::get)
                    .filter(first -> first <= last)
                    .min()
                    .ifPresent(first -> loops.add(new Loop(first, last, insn)));
        }
        return loops;
    }

    private static List<LabelNode> targets(AbstractInsnNode insn) {
        if (insn instanceof JumpInsnNode jump) {
            return List.of(jump.label);
        }
        List<LabelNode> targets = new ArrayList<>();
        if (insn instanceof TableSwitchInsnNode table) {
            targets.addAll(table.labels);
            targets.add(table.dflt);
        } else if (insn instanceof LookupSwitchInsnNode lookup) {
            targets.addAll(lookup.labels);
            targets.add(lookup.dflt);
        }
        return targets;
    }

    /** By position, how many calls there are before it; one entry more than instructions. */
    private static int[] nrCallsBefore(MethodNode method) {
        int[] nr = new int[method.instructions.size() + 1];
        int at = 0;
        for (AbstractInsnNode insn : method.instructions) {
            boolean call = insn instanceof MethodInsnNode || insn.getOpcode() == Opcodes.INVOKEDYNAMIC;
            nr[at + 1] = nr[at] + (call ? 1 : 0);
            at++;
        }
        return nr;
    }

    private static int line(AbstractInsnNode from) {
        for (AbstractInsnNode insn = from; insn != null; insn = insn.getPrevious()) {
            if (insn instanceof LineNumberNode line) {
                return line.line;
            }
        }
        return 0;
    }

    private static int firstLine(MethodNode method) {
        for (AbstractInsnNode insn : method.instructions) {
            if (insn instanceof LineNumberNode line) {
                return line.line;
            }
        }
        return 0;
    }

    static String dotted(String internalName) {
        return internalName.replace('/', '.');
    }
}
