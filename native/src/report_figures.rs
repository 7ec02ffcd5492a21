//! What the collector computes from a report's metrics: the host's capacity, the derived metrics and scores.
//!
//! The Python code in `lbdns/choosing/host_capacity.py` and `lbdns/scores/` computes the same numbers in the same order
//! of operations, and explains them.

const MEMORY: f64 = 60.0; // s
const ENOUGH: f64 = 20.0; // requests
const MAX_SPEED: f64 = 1e6; // requests per CPU second
const MIN_CPU: f64 = 0.05; // CPU seconds
const CPU_MARGIN: f64 = 1.25;
const STATUS_CPU: f64 = 0.01; // CPU seconds
const STATUS_WORKERS: f64 = 1.0;
const MAX_DERIVED: f64 = 1e15;
const MAX_SCORE: f64 = 1e15;
const ROUNDING: f64 = 1e-9;

/// The metrics of one report from which the others are derived.
#[derive(Clone, Copy, Default)]
pub struct Measured {
    pub cpu_count: Option<f64>,
    pub cpu_idle: Option<f64>,
    pub cpu_steal: Option<f64>,
    pub httpd_cpu_seconds: Option<f64>,
    pub requests_total: Option<f64>,
    pub requests_per_s: Option<f64>,
    pub run_queue: Option<f64>,
    pub busy_workers: Option<f64>,
    pub idle_workers: Option<f64>,
}

/// The values of the previous report that the next one is compared with. A whole report would take three times as much
/// memory for each member.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub cpu_count: Option<f64>,
    pub httpd_cpu_seconds: Option<f64>,
    pub requests_total: Option<f64>,
}

impl From<&Measured> for Counters {
    fn from(measured: &Measured) -> Counters {
        Counters {
            cpu_count: measured.cpu_count,
            httpd_cpu_seconds: measured.httpd_cpu_seconds,
            requests_total: measured.requests_total,
        }
    }
}

/// The derived metrics; None for each that cannot be derived.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Derived {
    pub run_queue_per_core: Option<f64>,
    pub idle_worker_share: Option<f64>,
    pub capacity_used: Option<f64>,
}

/// Return `value`, but at least `least`.
pub fn at_least(least: f64, value: f64) -> f64 {
    if value > least {
        value
    } else {
        least
    }
}

/// Return `value`, but at most `most`.
pub fn at_most(most: f64, value: f64) -> f64 {
    if value < most {
        value
    } else {
        most
    }
}

/// Estimates the requests/s that one host can serve, from its requests per CPU second.
#[derive(Default)]
pub struct HostCapacity {
    requests: f64,
    cpu_seconds: f64,
    last: Option<(Counters, f64)>, // of the newest report, and its time in monotonic seconds
}

impl HostCapacity {
    /// Record a report, and return the estimated capacity in requests/s, or 0 if it is unknown.
    pub fn observe(&mut self, measured: &Measured, interval: f64, now: f64) -> f64 {
        if let Some((last, at)) = self.last.replace((measured.into(), now)) {
            let seconds = now - at;
            if seconds > 0.0 {
                let weight = (-seconds / MEMORY).exp();
                self.requests *= weight;
                self.cpu_seconds *= weight;
                let status_requests = at_least(1.0, (seconds / interval).round_ties_even());
                if let Some((requests, cpu)) = served_between(&last, measured, seconds, status_requests) {
                    self.requests += requests;
                    self.cpu_seconds += cpu;
                }
            }
        }
        if self.requests <= ENOUGH || self.cpu_seconds <= 0.0 {
            return 0.0;
        }
        at_least(0.0, measured.cpu_count.unwrap_or(1.0)) * at_most(MAX_SPEED, self.requests / self.cpu_seconds)
    }
}

/// Return the clients' requests between two reports, and the CPU seconds that they used.
pub fn served_between(last: &Counters, now: &Measured, seconds: f64, status_requests: f64) -> Option<(f64, f64)> {
    let cores = now.cpu_count.unwrap_or(1.0);
    let requests = increase(last.requests_total, now.requests_total)?;
    let cpu = match (increase(last.httpd_cpu_seconds, now.httpd_cpu_seconds), now.cpu_idle) {
        (Some(cpu), _) => cpu,
        (None, Some(idle)) if now.httpd_cpu_seconds.is_none() => at_least(0.0, 1.0 - idle / 100.0) * cores * seconds,
        _ => return None,
    };
    let most_cores = at_least(1.0, at_least(cores, last.cpu_count.unwrap_or(1.0)));
    if !(cpu <= CPU_MARGIN * most_cores * seconds + MIN_CPU && requests <= MAX_SPEED * (cpu + MIN_CPU)) {
        return None;
    }
    let requests = at_least(0.0, requests - status_requests);
    Some((requests, if requests != 0.0 { cpu } else { at_least(0.0, cpu - STATUS_CPU * status_requests) }))
}

fn increase(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let (before, after) = (before?, after?);
    (after >= before).then_some(after - before)
}

impl Derived {
    /// Derive metrics for a host with the estimated `capacity` in requests/s, or 0 if it is unknown.
    pub fn of(measured: &Measured, capacity: f64, interval: f64) -> Derived {
        let mut found = Derived::default();
        let cores = measured.cpu_count.unwrap_or(1.0);
        if let Some(run_queue) = measured.run_queue.filter(|_| cores > 0.0) {
            let ratio = if run_queue > 0.0 { run_queue / cores } else { 0.0 };
            found.run_queue_per_core = Some(at_most(MAX_DERIVED, ratio));
        }
        if let (Some(busy), Some(idle)) = (measured.busy_workers, measured.idle_workers) {
            let idle = at_least(0.0, idle);
            let workers = idle + if busy > STATUS_WORKERS { busy - STATUS_WORKERS } else { 0.0 };
            if workers > 0.0 {
                found.idle_worker_share = Some(100.0 * (idle / workers));
            } else if busy > 0.0 {
                found.idle_worker_share = Some(0.0);
            }
        }
        if let Some(requests) = measured.requests_per_s.filter(|_| capacity > 0.0) {
            let served = requests - 1.0 / interval;
            let used = if served > 0.0 { 100.0 * (served / capacity) } else { 0.0 };
            found.capacity_used = Some(at_most(MAX_DERIVED, used));
        }
        found
    }
}

/// One term of a score as a straight line.
#[derive(Clone, Copy)]
pub struct Line {
    pub weight: f64,
    pub slope: f64,
    pub zero: f64,
    pub end: f64,
    pub beyond: f64,
}

/// Return the score: the weighted sum of the terms whose metric has a value, scaled up to the `total` weight.
pub fn score(terms: impl Iterator<Item = (Line, f64)>, total: f64) -> i64 {
    let (mut score, mut present) = (0.0, 0.0);
    for (line, value) in terms {
        present += line.weight;
        score += if value >= line.end { line.beyond } else { line.slope * (at_least(0.0, value) - line.zero) };
    }
    if present == 0.0 {
        return 0;
    }
    let scale = if present == total { 1.0 } else { at_most(MAX_SCORE, total / present) };
    at_most(MAX_SCORE, score * scale + ROUNDING) as i64
}
