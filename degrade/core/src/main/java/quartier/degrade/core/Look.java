package quartier.degrade.core;

/**
 * What CPUs did of late.
 *
 * @param idlePart the part of their time in which nobody used them, 0 to 1; NaN if that is not known
 * @param nrCompiling how many of the JVM's compiler threads had work to do, on average; 0 if that is not known
 * @param forNanos how long it was looked, until now
 */
public record Look(double idlePart, double nrCompiling, long forNanos) {}
