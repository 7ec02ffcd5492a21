//! The arithmetic that takes longest when a large pool is planned.
//!
//! The Python code in `lbdns/policies/` and `lbdns/choosing/capacity_estimate.py` computes the same numbers in the same
//! order of operations, and explains them. It also owns the constants, which it passes as arguments.

use std::cmp::Ordering;

/// How Python adds the items of a list: since Python 3.12, `sum` compensates for rounding errors.
#[derive(Clone, Copy, PartialEq)]
pub enum Adding {
    Plain,
    Compensated,
}

impl Adding {
    pub fn sum(self, values: impl Iterator<Item = f64>) -> f64 {
        if self == Adding::Plain {
            return values.fold(0.0, |total, value| total + value);
        }
        let (mut total, mut lost) = (0.0_f64, 0.0_f64);
        for value in values {
            let next = total + value;
            lost += if total.abs() >= value.abs() { (total - next) + value } else { (value - next) + total };
            total = next;
        }
        if lost != 0.0 && lost.is_finite() {
            total + lost
        } else {
            total
        }
    }
}

/// A member as the search for the operating point sees it.
#[derive(Clone, Copy)]
struct Server {
    capacity: f64,
    parallel: f64, // m
    extra: f64,    // (q - 1) / 2
    exponent: f64, // 1 / q
    wait: f64,     // s during standstills
}

impl Server {
    /// Return the q-th root of `x`. A power takes several times as long as a square root.
    fn root(&self, x: f64) -> f64 {
        if self.exponent == 1.0 {
            x
        } else if self.exponent == 0.5 {
            x.sqrt()
        } else if self.exponent == 0.25 {
            x.sqrt().sqrt()
        } else {
            x.powf(self.exponent)
        }
    }
}

/// Each member's requests/s, the requests in progress, and the sums of both.
struct Split {
    rates: Vec<f64>,
    loads: Vec<f64>,
    rate: f64,
    load: f64,
}

impl Split {
    /// Return the split at which one more request/s costs `cost` seconds at every member.
    fn at(servers: &[Server], cost: f64, adding: Adding) -> Split {
        let (mut rates, mut loads) = (Vec::with_capacity(servers.len()), Vec::with_capacity(servers.len()));
        for server in servers {
            let times = (cost - server.wait) * server.capacity / server.parallel;
            if times <= 1.0 {
                rates.push(0.0);
                loads.push(0.0);
                continue;
            }
            let half = times + server.extra;
            let x = (times - 1.0) / (half + (half * half - times * (times - 1.0)).sqrt());
            let utilisation = server.root(x);
            let rate = server.capacity * utilisation;
            rates.push(rate);
            loads.push(server.parallel * utilisation / (1.0 - x) + rate * server.wait);
        }
        let (rate, load) = (adding.sum(rates.iter().copied()), adding.sum(loads.iter().copied()));
        Split { rates, loads, rate, load }
    }

    fn missing(&self, wanted: f64, in_progress: f64) -> f64 {
        let (by_rate, by_load) = (1.0 - self.rate / wanted, 1.0 - self.load / in_progress);
        if by_load < by_rate {
            by_load
        } else {
            by_rate
        }
    }
}

/// The limits of the search for the operating point.
pub struct SearchLimits {
    pub max_utilisation: f64,
    pub accuracy: f64,
    pub steps: u32,
    pub narrowest: f64,
    pub sample: usize,
    pub stride: usize,
    pub around: (f64, f64),
}

/// What other programs do to some members: the runnable tasks on their hosts, and the s for which a request waits because
/// the host stands still.
pub struct Contention {
    pub other_tasks: Vec<(usize, f64)>,
    pub standstills: Vec<(usize, f64)>,
}

/// Return each member's ideal requests/s, and the resulting requests in progress. All capacities are above 0.
pub fn operating_point(
    capacities: &[f64],
    cores: &[f64],
    contention: &Contention,
    rate: f64,
    in_progress: f64,
    limits: &SearchLimits,
    adding: Adding,
) -> (Vec<f64>, Vec<f64>) {
    let mut servers: Vec<Server> = (capacities.iter().zip(cores))
        .map(|(&capacity, &cores)| {
            let rounded = cores.round_ties_even();
            let parallel = if rounded > 1.0 { rounded } else { 1.0 };
            Server { capacity, parallel, extra: (parallel - 1.0) / 2.0, exponent: 1.0 / parallel, wait: 0.0 }
        })
        .collect();
    for &(member, tasks) in &contention.other_tasks {
        let server = &mut servers[member];
        let alone = if server.parallel - tasks > 1.0 { server.parallel - tasks } else { 1.0 };
        server.parallel = if 1.0 + tasks > server.parallel { 1.0 + tasks } else { server.parallel };
        (server.extra, server.exponent) = ((alone - 1.0) / 2.0, 1.0 / alone);
    }
    for &(member, wait) in &contention.standstills {
        servers[member].wait = wait;
    }
    let most = limits.max_utilisation * adding.sum(capacities.iter().copied());
    let wanted = if most < rate { most } else { rate };
    let in_progress = if in_progress > 1.0 { in_progress } else { 1.0 };
    if wanted <= 0.0 {
        return (vec![0.0; servers.len()], vec![0.0; servers.len()]);
    }
    let search = Search { servers: &servers, wanted, in_progress, limits, adding };
    let (below, above, _) = search.run(&search.guesses());
    let (lacks, exceeds) = (below.missing(wanted, in_progress), -above.missing(wanted, in_progress));
    let part = if lacks > 0.0 { lacks / (lacks + exceeds) } else { 0.0 };
    let between = |below: &[f64], above: &[f64]| -> Vec<f64> {
        below.iter().zip(above).map(|(one, other)| one + part * (other - one)).collect()
    };
    let (rates, loads) = (between(&below.rates, &above.rates), between(&below.loads, &above.loads));
    let total = adding.sum(rates.iter().copied());
    let scale = if total > 0.0 { rate / total } else { 0.0 };
    (rates.into_iter().map(|rate| rate * scale).collect(), loads)
}

/// A bound of the search: the reciprocal of the cost's square root, the split, and what it lacks.
struct Bound {
    at: f64,
    split: Split,
    missing: f64,
}

#[derive(PartialEq)]
enum Side {
    Neither,
    Below,
    Above,
}

/// The search for the marginal cost at which all members together get the wanted rate.
struct Search<'a> {
    servers: &'a [Server],
    wanted: f64,
    in_progress: f64,
    limits: &'a SearchLimits,
    adding: Adding,
}

impl Search<'_> {
    /// Return costs near the one to be found, in ascending order.
    fn guesses(&self) -> Vec<f64> {
        let (size, sample_size) = (self.servers.len(), self.limits.sample);
        if size < 4 * sample_size {
            return Vec::new();
        }
        let sample: Vec<Server> =
            (0..sample_size).map(|number| self.servers[number * self.limits.stride % size]).collect();
        let total = |servers: &[Server]| self.adding.sum(servers.iter().map(|server| server.capacity));
        let carried = total(&sample);
        let (part, most) = (carried / total(self.servers), self.limits.max_utilisation * carried);
        let cost = |near: f64| {
            let (wanted, in_progress) = (self.wanted * part * near, self.in_progress * part * near);
            let wanted = if wanted < most { wanted } else { most };
            Search { servers: &sample, wanted, in_progress, ..*self }.run(&[]).2
        };
        vec![cost(self.limits.around.0), cost(self.limits.around.1)]
    }

    fn tried(&self, at: f64) -> Bound {
        let split = Split::at(self.servers, 1.0 / (at * at), self.adding);
        let missing = split.missing(self.wanted, self.in_progress);
        Bound { at, split, missing }
    }

    /// Return a split that lacks something, one that does not, and the cost at one of them.
    fn run(&self, guesses: &[f64]) -> (Split, Split, f64) {
        let idle = vec![0.0; self.servers.len()];
        let firsts = self.servers.iter().map(|server| server.parallel / server.capacity + server.wait);
        let first = firsts.fold(f64::INFINITY, f64::min);
        let least = first * (1.0 - 1e-9);
        let split = Split { rates: idle.clone(), loads: idle, rate: 0.0, load: 0.0 };
        let mut below = Bound { at: 1.0 / least.sqrt(), split, missing: 1.0 };
        let mut costs = guesses.iter();
        loop {
            let above = self.tried(costs.next().map_or(below.at / 2.0, |cost| 1.0 / cost.sqrt()));
            if above.missing > 0.0 {
                below = above;
            } else {
                return self.narrowed(below, above);
            }
        }
    }

    fn narrowed(&self, mut below: Bound, mut above: Bound) -> (Split, Split, f64) {
        let (mut newest, mut missing) = (above.at, above.missing);
        let (mut lacks, mut exceeds, mut halve, mut replaced) = (below.missing, above.missing, false, Side::Neither);
        for _ in 0..self.limits.steps {
            let width = below.at - above.at;
            if missing.abs() <= self.limits.accuracy || width <= self.limits.narrowest * below.at {
                break;
            }
            let at = (above.at * lacks - below.at * exceeds) / (lacks - exceeds);
            let halve_now = halve || !(above.at..=below.at).contains(&at);
            let tried = self.tried(if halve_now { (above.at * below.at).sqrt() } else { at });
            (newest, missing) = (tried.at, tried.missing);
            if missing > 0.0 {
                exceeds = if replaced == Side::Below { exceeds / 2.0 } else { exceeds };
                (below, lacks, replaced) = (tried, missing, Side::Below);
            } else {
                lacks = if replaced == Side::Above { lacks / 2.0 } else { lacks };
                (above, exceeds, replaced) = (tried, missing, Side::Above);
            }
            halve = !halve && below.at - above.at > width / 2.0;
        }
        (below.split, above.split, 1.0 / (newest * newest))
    }
}

const HIGHEST_VARIANCE: f64 = 1e18;
const TINY: f64 = 1e-300; // smallest divisor

/// Observed speeds, their relative variances, and the winsorised speeds.
pub struct Speeds<'a> {
    pub speeds: &'a [f64],
    pub variances: &'a [f64],
    pub inner: &'a [f64],
    pub adding: Adding,
}

impl Speeds<'_> {
    /// Return the mean of the speeds, weighting each by the inverse of its total variance.
    pub fn mean(&self, between: f64) -> f64 {
        let weight = |variance: &f64| 1.0 / (variance + between);
        let total = self.adding.sum(self.variances.iter().zip(self.inner).map(|(v, inner)| weight(v) * inner));
        total / self.adding.sum(self.variances.iter().map(weight))
    }

    fn differences(&self, between: f64) -> f64 {
        let mean = self.mean(between);
        self.adding.sum(self.speeds.iter().zip(self.variances).map(|(speed, variance)| {
            let gap = speed / mean - 1.0;
            gap * gap / (variance + between)
        }))
    }

    /// Return the relative variance of the members' true speeds.
    pub fn variance_between(&self, steps: u32) -> f64 {
        let expected = self.speeds.len() as f64 - 1.0;
        let mut high = self.speeds.len() as f64;
        let at_zero = self.differences(0.0);
        if at_zero <= expected {
            return 0.0;
        }
        let mut at_high = self.differences(high);
        while at_high > expected && high < HIGHEST_VARIANCE {
            high *= 4.0;
            at_high = self.differences(high);
        }
        self.first_step(expected, high, at_zero, at_high, steps)
    }

    /// Return the first of 2 ** `steps` steps from 0 to `high` at which the differences are at most `expected`.
    fn first_step(&self, expected: f64, high: f64, at_zero: f64, at_high: f64, steps: u32) -> f64 {
        let inverse = |differences: f64| 1.0 / differences.max(TINY);
        let (mut below, mut above, unit) = (0, 1_u64 << steps, high / (1_u64 << steps) as f64);
        let (mut inverse_below, mut inverse_above) = (1.0 / at_zero, inverse(at_high));
        let mut evaluations = 0;
        while above - below > 1 {
            evaluations += 1;
            let step = if evaluations % 4 == 0 || expected <= 0.0 {
                (below + above) / 2 // in case the line is bent, or of one member, has no slope
            } else {
                let width = inverse_above - inverse_below;
                let share = if width > 0.0 { (1.0 / expected - inverse_below) / width } else { 0.5 };
                let step = below + (share.clamp(0.0, 1.0) * (above - below) as f64).ceil() as u64;
                step.clamp(below + 1, above - 1)
            };
            let value = self.differences(step as f64 * unit);
            if value > expected {
                (below, inverse_below) = (step, 1.0 / value);
            } else {
                (above, inverse_above) = (step, inverse(value));
            }
        }
        above as f64 * unit
    }
}

fn ordered(one: f64, other: f64) -> Ordering {
    one.partial_cmp(&other).unwrap_or(Ordering::Equal)
}

/// Return the first `length` selections of members with the given shares and credits.
pub fn smooth_order(weights: &[f64], credits: &[f64], length: usize) -> Vec<usize> {
    let by_time = |a: &(f64, usize), b: &(f64, usize)| ordered(a.0, b.0).then(a.1.cmp(&b.1));
    let mut first: Vec<(f64, usize)> = (weights.iter().zip(credits).enumerate())
        .filter(|(_, (weight, _))| **weight > 0.0)
        .map(|(i, (weight, credit))| ((0.5 - credit) * (1.0 / weight), i))
        .collect();
    if first.len() > length {
        first.select_nth_unstable_by(length, by_time);
        first.truncate(length);
    }
    let mut due = Vec::with_capacity(2 * length + first.len());
    for (_, i) in first {
        let (step, credit) = (1.0 / weights[i], credits[i]);
        let last = (length as f64 * weights[i] + credit) as i64 + 2;
        due.extend((1..=last).map(|k| ((k as f64 - 0.5 - credit) * step, i)));
    }
    due.sort_unstable_by(by_time);
    due.truncate(length);
    due.into_iter().map(|(_, i)| i).collect()
}

/// Return the median of at least one number, which reorders them.
pub fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let upper = *values.select_nth_unstable_by(middle, |a, b| ordered(*a, *b)).1;
    if values.len() % 2 == 0 {
        let lower = values[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        return (lower + upper) / 2.0;
    }
    upper
}

/// Return each member's credit after a plan with these shares and credits, from -1 to 1.
pub fn carried_credits(credits: &[f64], weights: &[f64], counts: &[f64], total: f64) -> Vec<f64> {
    let carried = |i: usize| (credits[i] + total * weights[i] - counts[i]).clamp(-1.0, 1.0);
    (0..credits.len()).map(carried).collect()
}
