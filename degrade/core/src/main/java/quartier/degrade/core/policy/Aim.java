package quartier.degrade.core.policy;

import java.util.List;

/**
 * What a policy holds a class to, and where that stands.
 *
 * @param loadClass whose number the target depends on; null if it is level
 * @param load how many of them there are, smoothed
 * @param othersShare the part of permit time that all other classes may have while this one wants it, 0 to 1
 * @param outOfReach whether the class has missed its target for ten seconds though the others had as little as they ever have, or were not here
 */
public record Aim(
        String className,
        String loadClass,
        List<Curve.Point> points,
        double load,
        long targetNanos,
        double othersShare,
        boolean outOfReach) {}
