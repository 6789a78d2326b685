package quartier.degrade.core.policy;

import java.util.List;

/** Latency by load: straight lines between given points, level before the first and after the last. */
public record Curve(List<Point> points) {
    /** So many jobs of the load's class present, so long a latency. */
    public record Point(int nrPresent, long latencyNanos) {}

    public Curve {
        points = List.copyOf(points);
        if (points.isEmpty()) {
            throw new IllegalArgumentException("a curve needs a point");
        }
        for (int at = 1; at < points.size(); at++) {
            if (points.get(at).nrPresent <= points.get(at - 1).nrPresent) {
                throw new IllegalArgumentException("a curve's loads must rise");
            }
        }
    }

    public static Curve level(long latencyNanos) {
        return new Curve(List.of(new Point(0, latencyNanos)));
    }

    public long at(double nrPresent) {
        Point before = points.get(0);
        for (Point point : points) {
            if (nrPresent <= point.nrPresent) {
                double width = point.nrPresent - before.nrPresent;
                double part = width == 0 ? 1 : Math.max(0, (nrPresent - before.nrPresent) / width);
                return Math.round(before.latencyNanos + part * (point.latencyNanos - before.latencyNanos));
            }
            before = point;
        }
        return before.latencyNanos;
    }
}
