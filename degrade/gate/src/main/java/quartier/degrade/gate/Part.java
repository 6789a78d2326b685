package quartier.degrade.gate;

/** A task of a request, on the thread that runs it. Nobody sees this but that thread's stack. */
final class Part implements Runnable {
    private final Hook owner;
    private final Object whole;
    private final Runnable task;

    Part(Hook owner, Object whole, Runnable task) {
        this.owner = owner;
        this.whole = whole;
        this.task = task;
    }

    @Override
    public void run() {
        try {
            Gate.beginPart(owner, whole);
            task.run();
        } finally {
            Gate.endTask();
        }
    }
}
