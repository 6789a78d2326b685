//! The loop that steers connections, on a made-up machine in simulated time: it settles after a step,
//! a slowed node, a node that another program occupies and a copy that stands still, does nothing where
//! there is nothing to do, and does not swing, with connections that live for 50 ms and for 30 s; by what
//! it looks at itself, and by U of a decision tree, which grows old when nobody renews it. `QUARTIER_SEED`
//! repeats a run.

#[path = "common/random.rs"]
mod random;

use quartier_decide::steer::{CopySeen, Freshness, Shape, State, Steering, Why, places};

use random::Random;

const TICK_S: f64 = 0.02;
const TICKS_PER_LOOK: usize = 5;
const CPUS: f64 = 4.0;
/// CPUs that a connection keeps busy.
const DEMAND: f64 = 0.02;
/// Connections that a copy has open at once; more wait.
const OPEN_MAX: u32 = 400;

/// As much as arrivals make, being random; a loop that is not damped overshoots by several times as much.
const RANDOM: Most = Most { excess: 0.25, swing: 0.1, overshoot: 0.24 };

/// What comes a quarter of a second later makes it a little more.
const RANDOM_AND_LATE: Most = Most { excess: 0.3, swing: 0.13, overshoot: 0.28 };

/// By how much the node that has a step may be more loaded than the others in the end, how far what it keeps may be from its mean, and
/// how far below that on its way there.
#[derive(Clone, Copy)]
struct Most {
    excess: f64,
    swing: f64,
    overshoot: f64,
}

/// `quartier tree serve` renews U so often, and smooths it over four times as long.
const RENEWED_EVERY_S: f64 = 0.25;

impl Random {
    /// How many of `of` happen, each with this probability.
    fn count(&mut self, of: u32, probability: f64) -> u32 {
        (0..of).filter(|_| self.unit() < probability).count() as u32
    }

    /// Arrivals of a tick.
    fn poisson(&mut self, mean: f64) -> u32 {
        let (limit, mut product, mut count) = ((-mean).exp(), self.unit(), 0);
        while product > limit {
            product *= self.unit();
            count += 1;
        }
        count
    }
}

/// A node with its copy: connections that are open share its CPUs, and end the later the less they get.
#[derive(Clone, Debug, Default)]
struct Node {
    open: u32,
    waiting: u32,
    is_stopped: bool,
    arrived: u64,
    used_s: f64,
    slowed: f64,
    /// Threads of another program that want a CPU each,
    others: f64,
    /// and those of it that the tree counts, if there is one.
    counted: Option<f64>,
    /// CPU time that anybody used: since the last look, and since U was renewed.
    busy_s: f64,
    busy_s_of_tree: f64,
}

/// U of a decision tree, which somebody renews until he ends.
struct Tree {
    period_s: f64,
    ends_s: f64,
    age_s: f64,
    usage: Vec<Option<f64>>,
    freshness: Freshness,
}

impl Tree {
    fn renewed_every(period_s: f64, nr_nodes: usize) -> Self {
        let usage = vec![None; nr_nodes];
        let freshness = Freshness::default();
        Self { period_s, ends_s: f64::INFINITY, age_s: 0.0, usage, freshness }
    }

    /// As `dqdt::Refresher` does it: a moving average over four ticks.
    fn tick(&mut self, now_s: f64, nodes: &mut [Node]) {
        self.age_s += TICK_S;
        if now_s > self.ends_s || self.age_s < self.period_s {
            return;
        }
        for (usage, node) in self.usage.iter_mut().zip(nodes) {
            let now = std::mem::take(&mut node.busy_s_of_tree) / (node.power() * self.age_s);
            let before = usage.unwrap_or(now);
            *usage = Some(before + 2.0 * (now.min(1.0) - before) / 5.0);
        }
        self.age_s = 0.0;
    }
}

impl Node {
    /// CPUs, of the usual speed.
    fn power(&self) -> f64 {
        CPUS * self.slowed
    }

    /// All who want a CPU share them alike; gives what the copy wants, and what it gets.
    fn run(&mut self) -> (f64, f64) {
        let wanted = if self.is_stopped { 0.0 } else { f64::from(self.open) * DEMAND };
        let (power, all) = (self.power(), wanted + self.others);
        let got = if all > power { wanted / all * power } else { wanted };
        self.used_s += got * TICK_S;
        self.busy_s += all.min(power) * TICK_S;
        self.busy_s_of_tree += all.min(power) * TICK_S;
        (wanted, got)
    }
}

struct World {
    nodes: Vec<Node>,
    tree: Option<Tree>,
    life_s: f64,
    random: Random,
    steering: Steering,
    shares: Vec<Vec<f64>>,
    rows: Vec<Vec<usize>>,
    outs: Vec<Option<Why>>,
    now_s: f64,
}

/// Loads and shares over time.
type Course = Vec<(f64, Vec<f64>, Vec<Vec<f64>>)>;

impl World {
    fn new(nr_nodes: usize, life_s: f64) -> Self {
        let distance = |a: usize, b: usize| match a.abs_diff(b) {
            0 => 10.0,
            1 => 16.0,
            _ => 22.0,
        };
        let shape = Shape {
            homes: (0..nr_nodes).collect(),
            cpus: vec![CPUS as usize; nr_nodes],
            distances: (0..nr_nodes)
                .map(|a| (0..nr_nodes).map(|b| distance(a, b)).collect())
                .collect(),
        };
        let mut world = Self {
            nodes: vec![Node { slowed: 1.0, ..Node::default() }; nr_nodes],
            tree: None,
            life_s,
            random: Random::seeded(),
            steering: Steering::new(shape),
            shares: Vec::new(),
            rows: Vec::new(),
            outs: Vec::new(),
            now_s: 0.0,
        };
        world.look();
        world
    }

    /// The same, and U comes from a tree that is renewed as often as usual.
    fn by_tree(nr_nodes: usize, life_s: f64) -> Self {
        let tree = Some(Tree::renewed_every(RENEWED_EVERY_S, nr_nodes));
        Self { tree, ..Self::new(nr_nodes, life_s) }
    }

    /// Another program has so many threads on a node, and so many of them want a CPU.
    fn occupy(&mut self, node: usize, counted: Option<f64>, wanting: f64) {
        (self.nodes[node].counted, self.nodes[node].others) = (counted, wanting);
    }

    /// Arrivals a second that keep a node so busy.
    fn rate(&self, busy: f64) -> f64 {
        busy * CPUS / DEMAND / self.life_s
    }

    fn look(&mut self) {
        let seconds = TICK_S * TICKS_PER_LOOK as f64;
        let usage = self.tree.as_mut().and_then(|tree| {
            let is_fresh = tree.freshness.look(seconds, Some(tree.age_s));
            is_fresh.then(|| tree.usage.clone())
        });
        let usage = usage.unwrap_or_else(|| vec![None; self.nodes.len()]);
        let seen = |(node, usage): (&Node, Option<f64>)| CopySeen {
            state: if node.is_stopped { State::Stopped } else { State::Listens },
            waiting: Some(node.waiting),
            open: Some(node.open),
            arrived: Some(node.arrived),
            worked_s: Some(node.used_s),
            busy: Some((node.busy_s / (node.power() * seconds)).min(1.0)),
            usage,
            others: node.counted.map(|counted| counted / CPUS),
        };
        let seen: Vec<_> = self.nodes.iter().zip(usage).map(seen).collect();
        let decision = self.steering.look(seconds, &seen);
        for (at, verdict) in decision.verdicts.iter().enumerate() {
            if verdict.out.is_some() && self.outs.get(at).is_some_and(|out| out.is_none()) {
                // What waits is moved, as the kernel does it.
                let waiting = std::mem::take(&mut self.nodes[at].waiting);
                let next = (at + 1) % self.nodes.len();
                self.nodes[next].waiting += waiting;
            }
        }
        self.outs = decision.verdicts.iter().map(|verdict| verdict.out).collect();
        for row in &decision.shares {
            let sum: f64 = row.iter().sum();
            assert!((sum - 1.0).abs() < 1e-9 || sum == 0.0, "{row:?}");
            assert!(row.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)), "{row:?}");
        }
        self.rows = decision.shares.iter().map(|row| places(row, 256)).collect();
        self.shares = decision.shares;
        for node in &mut self.nodes {
            (node.arrived, node.used_s, node.busy_s) = (0, 0.0, 0.0);
        }
    }

    fn run(&mut self, seconds: f64, rates: &[f64]) -> Course {
        let mut course = Vec::new();
        for tick in 0..(seconds / TICK_S) as usize {
            for (domain, rate) in rates.iter().enumerate() {
                for _ in 0..self.random.poisson(rate * TICK_S) {
                    let place = (self.random.unit() * 256.0) as usize;
                    let to = self.rows[domain].get(place).copied().unwrap_or(domain);
                    self.nodes[to].waiting += 1;
                    self.nodes[to].arrived += 1;
                }
            }
            let mut loads = Vec::new();
            for node in &mut self.nodes {
                if !node.is_stopped {
                    let accepted = node.waiting.min(OPEN_MAX - node.open.min(OPEN_MAX));
                    node.waiting -= accepted;
                    node.open += accepted;
                }
                let (wanted, got) = node.run();
                if !node.is_stopped {
                    let progress = (got / wanted.max(1e-9)).min(1.0);
                    node.open -= self.random.count(node.open, progress * TICK_S / self.life_s);
                }
                loads.push((wanted + node.others) / node.power());
            }
            self.now_s += TICK_S;
            if let Some(tree) = &mut self.tree {
                tree.tick(self.now_s, &mut self.nodes);
            }
            if (tick + 1) % TICKS_PER_LOOK == 0 {
                self.look();
                course.push((self.now_s, loads, self.shares.clone()));
            }
        }
        course
    }
}

/// The mean over the last so many looks.
fn tail(course: &Course, looks: usize, value: impl Fn(&Vec<f64>, &Vec<Vec<f64>>) -> f64) -> f64 {
    let last = &course[course.len() - looks..];
    last.iter().map(|(_, loads, shares)| value(loads, shares)).sum::<f64>() / looks as f64
}

/// How far what domain 0 keeps is from its mean, in the last so many looks (standard deviation). Arrivals
/// alone, being random, make some of it: a swing would be several times as much.
fn swing(course: &Course, looks: usize) -> f64 {
    let kept = |shares: &Vec<Vec<f64>>| shares[0][0];
    let mean = tail(course, looks, |_, shares| kept(shares));
    tail(course, looks, |_, shares| (kept(shares) - mean).powi(2)).sqrt()
}

/// How much less than in the end domain 0 keeps on the way there, over two seconds.
fn overshoot(course: &Course) -> f64 {
    let kept: Vec<f64> = course.iter().map(|(_, _, shares)| shares[0][0]).collect();
    let mean = |kept: &[f64]| kept.iter().sum::<f64>() / kept.len() as f64;
    let least = kept.windows(20).map(mean).fold(1.0, f64::min);
    mean(&kept[kept.len() - 100..]) - least
}

#[test]
fn where_all_are_alike_everybody_keeps_what_is_his() {
    for (busy, life_s) in [(0.05, 0.05), (0.6, 0.05), (0.6, 10.0), (1.3, 1.0)] {
        let mut world = World::new(4, life_s);
        let rate = world.rate(busy);
        let course = world.run(30.0, &[rate; 4]);
        let local =
            tail(&course, 200, |_, shares| (0..4).map(|at| shares[at][at]).sum::<f64>() / 4.0);
        assert!(local > 0.97, "busy {busy}, life {life_s} s: {local}");
    }
}

/// A step of load on node 0, which the loop has to settle, all others being alike.
fn step(mut world: World, settles_s: f64, most: Most) {
    let life_s = world.life_s;
    let rate = world.rate(0.4);
    world.run(10.0 + life_s, &[rate; 4]);
    // Node 0 receives what would keep it 1.6 times as busy as it can be; all together 0.7.
    let rates = [4.0 * rate, rate, rate, rate];
    let course = world.run(settles_s, &rates);
    let load = |at: usize| tail(&course, 100, |loads, _| loads[at]);
    let others = (load(1) + load(2) + load(3)) / 3.0;
    let (excess, swing) = (load(0) - others, swing(&course, 100));
    let overshoot = overshoot(&course);
    println!(
        "life {life_s} s: load 0 is {:.2}, others {others:.2}, swing {swing:.3}, overshoot {overshoot:.3}",
        load(0)
    );
    assert!(excess < most.excess && load(0) < 1.0, "life {life_s} s: {excess}");
    assert!(swing < most.swing, "life {life_s} s: {swing}");
    assert!(overshoot < most.overshoot, "life {life_s} s: {overshoot}");
    // The nearest gets the most of it.
    let got = |at: usize| tail(&course, 100, |_, shares| shares[0][at]);
    let further = (got(2) + got(3)) / 2.0;
    assert!(life_s > 0.1 || got(1) > further, "{} {further}", got(1));
}

const LIVES: [(f64, f64); 4] = [(0.05, 30.0), (1.0, 30.0), (10.0, 90.0), (30.0, 240.0)];

#[test]
fn a_step_of_load_is_spread_and_then_nothing_swings() {
    for (life_s, settles_s) in LIVES {
        step(World::new(4, life_s), settles_s, RANDOM);
    }
}

#[test]
fn by_the_usage_that_the_tree_has_it_settles_as_well() {
    for (life_s, settles_s) in LIVES {
        step(World::by_tree(4, life_s), settles_s, RANDOM_AND_LATE);
    }
}

#[test]
fn usage_that_nobody_renews_any_more_is_not_believed() {
    for (life_s, settles_s) in LIVES {
        let mut world = World::by_tree(4, life_s);
        // While all is calm, so that is what the tree goes on to say.
        world.tree.as_mut().unwrap().ends_s = 5.0;
        step(world, settles_s, RANDOM_AND_LATE);
    }
}

#[test]
fn usage_that_is_renewed_too_seldom_changes_nothing() {
    let course = |period_s: Option<f64>| {
        let mut world = World::new(4, 0.5);
        // The same arrivals each time.
        world.random = Random::of(4711);
        world.tree = period_s.map(|period_s| Tree::renewed_every(period_s, 4));
        let rate = world.rate(0.4);
        world.run(30.0, &[4.0 * rate, rate, rate, rate])
    };
    for period_s in [1.0, 3.0, 60.0] {
        assert!(course(Some(period_s)) == course(None), "{period_s} s");
    }
    assert!(course(Some(RENEWED_EVERY_S)) != course(None));
}

/// All of a node's CPUs are taken by threads of another program.
#[test]
fn a_node_that_another_program_occupies_gives_its_connections_away_until_it_ends() {
    for by_tree in [false, true] {
        let mut world = if by_tree { World::by_tree(4, 0.5) } else { World::new(4, 0.5) };
        let rate = world.rate(0.5);
        (0..4).for_each(|node| world.occupy(node, Some(0.0), 0.0));
        world.run(10.0, &[rate; 4]);
        world.occupy(1, Some(CPUS), CPUS);
        let course = world.run(40.0, &[rate; 4]);
        let share = |from: usize, to: usize| tail(&course, 100, |_, shares| shares[from][to]);
        println!("by tree {by_tree}: node 1 keeps {:.2}", share(1, 1));
        assert!(share(1, 1) < 0.3, "{}", share(1, 1));
        for from in [0, 2, 3] {
            assert!(share(from, 1) < 0.02 && share(from, from) > 0.9, "{from}");
        }
        world.occupy(1, Some(0.0), 0.0);
        let course = world.run(40.0, &[rate; 4]);
        let kept = tail(&course, 100, |_, shares| shares[1][1]);
        assert!(kept > 0.97, "{kept}");
    }
}

/// T tells before anybody can see it.
#[test]
fn what_another_program_has_just_begun_counts_at_once_and_is_forgotten_if_it_sleeps() {
    let after_a_look = |counted: [f64; 2], wanting: f64| {
        let mut world = World::by_tree(4, 0.5);
        let rate = world.rate(0.5);
        (0..4).for_each(|node| world.occupy(node, Some(counted[0]), 0.0));
        world.run(20.0, &[rate; 4]);
        world.occupy(1, Some(counted[1]), wanting);
        let seconds = TICK_S * TICKS_PER_LOOK as f64;
        let course = world.run(seconds, &[rate; 4]);
        (tail(&course, 1, |_, shares| shares[1][1]), world, rate)
    };
    let (kept, ..) = after_a_look([0.0, 0.0], CPUS);
    assert!(kept > 0.9, "nobody counts them, and half a second has to pass: {kept}");
    let (kept, ..) = after_a_look([0.0, CPUS], CPUS);
    assert!(kept < 0.8, "{kept}");
    // What was there before us is not new.
    let (kept, ..) = after_a_look([CPUS, CPUS], 0.0);
    assert!(kept > 0.9, "{kept}");
    // A hundred threads that wait for something else take nothing.
    let (kept, mut world, rate) = after_a_look([0.0, 100.0], 0.0);
    assert!(kept < 0.8, "{kept}");
    let course = world.run(5.0, &[rate; 4]);
    let kept = tail(&course, 10, |_, shares| shares[1][1]);
    assert!(kept > 0.97, "{kept}");
}

#[test]
fn it_is_taken_back_when_the_step_is_over() {
    let mut world = World::new(2, 1.0);
    let rate = world.rate(0.3);
    world.run(30.0, &[4.0 * rate, rate]);
    let course = world.run(60.0, &[rate; 2]);
    let kept = tail(&course, 50, |_, shares| shares[0][0]);
    assert!(kept > 0.97, "{kept}");
}

#[test]
fn nothing_is_given_away_while_there_are_cpus_to_spare() {
    let mut world = World::new(4, 0.5);
    let rate = world.rate(0.5);
    let course = world.run(30.0, &[rate, 0.0, 0.0, 0.0]);
    let kept = tail(&course, 200, |_, shares| shares[0][0]);
    assert!(kept > 0.97, "{kept}");
    // And what was given away is soon taken back.
    world.run(20.0, &[4.0 * rate, 0.0, 0.0, 0.0]);
    assert!(world.shares[0][0] < 0.7, "{}", world.shares[0][0]);
    let idle = world.run(5.0, &[rate / 10.0, 0.0, 0.0, 0.0]);
    let kept = tail(&idle, 5, |_, shares| shares[0][0]);
    assert!(kept > 0.97, "{kept}");
}

#[test]
fn a_node_that_is_slowed_down_gets_less() {
    let mut world = World::new(4, 0.5);
    let rate = world.rate(0.6);
    world.run(10.0, &[rate; 4]);
    world.nodes[0].slowed = 0.5;
    let course = world.run(60.0, &[rate; 4]);
    let load = |at: usize| tail(&course, 100, |loads, _| loads[at]);
    println!("loads {:.2} {:.2} {:.2} {:.2}", load(0), load(1), load(2), load(3));
    assert!(load(0) < 1.0 && swing(&course, 100) < 0.1);
}

#[test]
fn a_copy_that_is_stopped_gets_nothing_and_comes_back_without_a_jolt() {
    let mut world = World::new(4, 0.5);
    let rate = world.rate(0.5);
    world.run(10.0, &[rate; 4]);
    world.nodes[0].is_stopped = true;
    let stopped = world.run(5.0, &[rate; 4]);
    assert_eq!(tail(&stopped, 40, |_, shares| shares.iter().map(|row| row[0]).sum()), 0.0);
    assert_eq!((world.outs[0], world.nodes[0].waiting), (Some(Why::Stopped), 0));
    world.nodes[0].is_stopped = false;
    let back = world.run(40.0, &[rate; 4]);
    let (_, _, first) = &back[0];
    assert!(first[0][0] < 0.2, "few at first: {}", first[0][0]);
    assert!(tail(&back, 50, |_, shares| shares[0][0]) > 0.97);
    let most = back.iter().flat_map(|(_, loads, _)| loads.clone()).fold(0.0, f64::max);
    assert!(most < 1.2, "{most}");
}

#[test]
fn where_nobody_can_serve_nobody_is_chosen_and_what_is_unknown_moves_nothing() {
    let shape = Shape { homes: vec![0, 1], cpus: vec![2; 2], distances: vec![vec![10.0; 2]; 2] };
    let seen = |state, busy| CopySeen {
        state,
        waiting: None,
        open: None,
        arrived: None,
        worked_s: None,
        busy,
        usage: None,
        others: None,
    };
    let mut steering = Steering::new(shape);
    let decision = steering.look(0.1, &[seen(State::Gone, None); 2]);
    assert!(decision.shares.iter().flatten().all(|share| *share == 0.0));
    let decision = steering.look(0.1, &[seen(State::Listens, None), seen(State::Gone, None)]);
    assert_eq!(decision.shares, [[1.0, 0.0], [1.0, 0.0]]);
    for _ in 0..200 {
        steering.look(0.1, &[seen(State::Listens, Some(1.0)), seen(State::Listens, None)]);
    }
    let decision =
        steering.look(0.1, &[seen(State::Listens, Some(1.0)), seen(State::Listens, None)]);
    assert_eq!(decision.shares, [[1.0, 0.0], [0.0, 1.0]]);
}

#[test]
fn a_domain_without_a_copy_gives_to_the_nearest() {
    let distances = vec![vec![10.0, 20.0, 40.0], vec![20.0, 10.0, 40.0], vec![40.0, 40.0, 10.0]];
    let shape = Shape { homes: vec![1, 2], cpus: vec![2; 2], distances };
    let idle = CopySeen {
        state: State::Listens,
        waiting: Some(0),
        open: Some(0),
        arrived: Some(0),
        worked_s: Some(0.0),
        busy: Some(0.0),
        usage: None,
        others: None,
    };
    let decision = Steering::new(shape).look(0.1, &[idle; 2]);
    assert!((decision.shares[0][0] - 0.8).abs() < 1e-9, "{:?}", decision.shares[0]);
}
