package quartier.degrade.core;

/**
 * How idle CPUs were.
 *
 * @param part of their time, 0 to 1; NaN if that is not known
 * @param forNanos how long it was looked, until now
 */
public record Idle(double part, long forNanos) {}
