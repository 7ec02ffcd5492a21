//! What one member's reports show over time.
//!
//! The Python code in `lbdns/choosing/` (`observed_pool.py`, `request_cost.py`, `contention.py`, `moving_averages.py`
//! and `reported_values.py`) computes the same numbers in the same order of operations, and explains them.

use crate::report_figures::{at_least, at_most, served_between, Counters, Measured};

const AVERAGE: f64 = 10.0; // s
const REQUESTS: f64 = 4.0; // s
const BUSY_WORKERS_VALID: f64 = 10.0; // s
const OVERDUE_AFTER: f64 = 2.0; // intervals
const MAX_INTERVALS: f64 = 10.0; // the longest gap between two reports that counts
const MAX_LOAD: f64 = 1e5; // requests
const WORK: (f64, f64) = (60.0, 200.0); // s and requests
const SLOW_MEMORY: f64 = 3600.0; // s
const RECENT: (f64, f64) = (4.0, 0.0); // s and requests
const MIN_CPU: f64 = 0.05; // CPU seconds
const MAX_SPEED: f64 = 1e6; // requests per CPU second
const UNLIKELY: f64 = 5.0; // standard deviations
const CONTENTION_MEMORY: f64 = 2.0; // s
const CONTENTION_PRIOR: f64 = 0.5; // requests in progress for a second
const CPU_PRIOR: f64 = 0.3; // s
const STATUS: f64 = 1.0; // busy workers
const PERIOD: f64 = 0.1; // s
const MIN_TASKS: f64 = 0.5;

/// The mean of a sampled value; None before the first sample.
struct ExponentialMean {
    tau: f64,
    value: Option<f64>,
}

impl ExponentialMean {
    fn add(&mut self, sample: f64, seconds: f64) {
        match &mut self.value {
            None => self.value = Some(sample),
            Some(value) if seconds > 0.0 => *value += (sample - *value) * -(-seconds / self.tau).exp_m1(),
            Some(_) => {}
        }
    }
}

/// Sums of the requests served and the CPU seconds that they used.
#[derive(Default)]
struct FadingWork {
    requests: f64,
    cpu_seconds: f64,
    counted: f64,
    requests_squared: f64,
    product: f64,
    cpu_squared: f64,
}

impl FadingWork {
    /// Fade the sums with the time constant `tau`, but more slowly once fewer than `kept` requests are left.
    fn fade(&mut self, seconds: f64, (tau, kept): (f64, f64)) {
        let mut weight = (-seconds / tau).exp();
        if weight * self.requests < kept {
            weight = (-seconds / SLOW_MEMORY).exp() * at_most(1.0, kept / at_least(1.0, self.requests));
        }
        self.requests *= weight;
        self.cpu_seconds *= weight;
        weight *= weight;
        self.counted *= weight;
        self.requests_squared *= weight;
        self.product *= weight;
        self.cpu_squared *= weight;
    }

    fn add(&mut self, (requests, cpu): (f64, f64)) {
        self.requests += requests;
        self.cpu_seconds += cpu;
        self.counted += requests;
        self.requests_squared += requests * requests;
        self.product += requests * cpu;
        self.cpu_squared += cpu * cpu;
    }

    fn is_known(&self) -> bool {
        self.requests > 0.0 && self.cpu_seconds > 0.0
    }

    fn speed(&self) -> f64 {
        if self.is_known() {
            at_most(MAX_SPEED, self.requests / self.cpu_seconds)
        } else {
            0.0
        }
    }

    fn relative_variance(&self) -> f64 {
        if !self.is_known() {
            return f64::INFINITY;
        }
        let each = self.cpu_seconds / self.requests;
        let variance = self.cpu_squared - 2.0 * self.product * each + self.requests_squared * each * each;
        at_least(0.0, variance) / self.cpu_seconds / self.cpu_seconds
    }

    fn sample_size(&self) -> f64 {
        if self.counted > 0.0 {
            self.requests * (self.requests / self.counted)
        } else {
            0.0
        }
    }
}

/// What other programs left to the web server: sums of seconds, and their products with the load and the other tasks.
#[derive(Default)]
struct Contention {
    used: f64,
    used_load: f64,
    idle: f64,
    idle_load: f64,
    load: f64,
    seconds: f64,
    tasks: f64,
    stolen: f64,
}

impl Contention {
    fn observe(&mut self, last: &LastReport, now: &Report, seconds: f64) {
        let needed = |report: &Report| {
            let measured = &report.measured;
            Some((measured.httpd_cpu_seconds?, measured.cpu_idle?, report.in_progress()?))
        };
        let (Some(before), Some(load_before)) = (last.counters.httpd_cpu_seconds, last.in_progress) else { return };
        let Some((after, idle, load_after)) = needed(now).filter(|_| last.has_cpu_idle) else { return };
        let used = after - before;
        if used < 0.0 {
            return;
        }
        let idle = seconds * at_most(1.0, at_least(0.0, idle / 100.0));
        let load = (load_before + load_after) / 2.0;
        let fading = (-seconds / CONTENTION_MEMORY).exp();
        self.used = self.used * fading + used;
        self.used_load = self.used_load * fading + used * load;
        self.idle = self.idle * fading + idle;
        self.idle_load = self.idle_load * fading + idle * load;
        self.load = self.load * fading + seconds * load;
        self.seconds = self.seconds * fading + seconds;
        self.tasks = self.tasks * fading + seconds * (last.other_tasks + now.other_tasks()) / 2.0;
        let stolen = now.measured.cpu_steal.unwrap_or(0.0) / 100.0;
        self.stolen = self.stolen * fading + seconds * at_most(1.0, at_least(0.0, stolen));
    }

    fn available_share(&self, cores: f64) -> f64 {
        let parallel = at_least(at_least(1.0, cores), 1.0 + self.other_tasks(cores));
        let got = (self.used_load + parallel * self.used) / cores + self.idle_load + parallel * self.idle;
        at_most(1.0, (got + CONTENTION_PRIOR) / (self.load + parallel * self.idle + CONTENTION_PRIOR))
    }

    fn other_tasks(&self, cores: f64) -> f64 {
        if self.tasks <= MIN_TASKS * self.seconds {
            return 0.0;
        }
        let found = self.tasks / self.seconds;
        let used = self.used / cores;
        let others = at_least(0.0, self.seconds - self.idle - used);
        let seen = (self.load * others / self.seconds + CPU_PRIOR * found) / (used + CPU_PRIOR);
        if seen > MIN_TASKS {
            at_most(found, seen)
        } else {
            0.0
        }
    }

    fn standstill(&self, cores: f64) -> f64 {
        if self.other_tasks(cores) == 0.0 {
            return 0.0;
        }
        let share = self.stolen / self.seconds;
        share * share * PERIOD / 2.0
    }
}

/// The metrics of one report that matter here.
#[derive(Clone, Copy, Default)]
pub struct Report {
    pub measured: Measured,
    pub listen_queue: Option<f64>,
}

impl Report {
    fn in_progress(&self) -> Option<f64> {
        Some(at_least(0.0, self.measured.busy_workers? - STATUS) + at_least(0.0, self.listen_queue.unwrap_or(0.0)))
    }

    /// Return the runnable tasks other than requests, below 0 if fewer tasks are runnable than requests in progress.
    fn other_tasks(&self) -> f64 {
        let busy = at_least(0.0, self.measured.busy_workers.unwrap_or(0.0) - STATUS);
        self.measured.run_queue.map_or(0.0, |run_queue| run_queue - busy)
    }

    /// Return the requests or runnable tasks, or None if they are unknown.
    pub fn load(&self) -> Option<f64> {
        let waiting = self.listen_queue.unwrap_or(0.0);
        let load = match (self.measured.busy_workers, self.measured.run_queue) {
            (Some(busy), run_queue) => {
                let load = at_least(0.0, busy + at_least(0.0, waiting));
                at_least(load, run_queue.unwrap_or(0.0))
            }
            (None, Some(run_queue)) => at_least(at_least(0.0, run_queue), waiting),
            (None, None) => return None,
        };
        Some(at_most(MAX_LOAD, load))
    }
}

/// What remains of a report when the next one arrives.
struct LastReport {
    counters: Counters,
    in_progress: Option<f64>,
    other_tasks: f64,
    has_cpu_idle: bool,
}

impl From<&Report> for LastReport {
    fn from(report: &Report) -> LastReport {
        LastReport {
            counters: (&report.measured).into(),
            in_progress: report.in_progress(),
            other_tasks: report.other_tasks(),
            has_cpu_idle: report.measured.cpu_idle.is_some(),
        }
    }
}

/// The observations of one member over time. Times are in monotonic seconds.
pub struct Observations {
    received: Option<f64>,
    last: Option<LastReport>,
    work: FadingWork,
    recent: FadingWork,
    newest: (f64, f64),
    counted: bool,
    contention: Contention,
    requests_per_s: ExponentialMean,
    between_reports: ExponentialMean,
    in_progress: ExponentialMean,
    busy_workers: (f64, f64),
    load: Option<f64>,
    pub interval: f64,
    pub overdue_at: f64,
}

impl Default for Observations {
    fn default() -> Observations {
        Observations {
            received: None,
            last: None,
            work: FadingWork::default(),
            recent: FadingWork::default(),
            newest: (0.0, 0.0),
            counted: false,
            contention: Contention::default(),
            requests_per_s: ExponentialMean { tau: REQUESTS, value: None },
            between_reports: ExponentialMean { tau: AVERAGE, value: None },
            in_progress: ExponentialMean { tau: AVERAGE, value: None },
            busy_workers: (0.0, f64::NEG_INFINITY),
            load: None,
            interval: 0.0,
            overdue_at: f64::INFINITY,
        }
    }
}

impl Observations {
    /// Return the busy workers to assume for a report without them, if the last known number is still valid.
    pub fn missing_busy_workers(&self, report: &Report, now: f64) -> Option<f64> {
        let is_missing = report.measured.busy_workers.is_none() && report.measured.run_queue.is_some();
        (is_missing && now - self.busy_workers.1 <= BUSY_WORKERS_VALID).then_some(self.busy_workers.0)
    }

    /// Record a report. `report` is None if it repeats the metrics of the previous one.
    pub fn observe(&mut self, received: f64, interval: f64, report: Option<Report>) {
        let seconds = self.received.map_or(0.0, |before| received - before);
        if self.received.is_some() && seconds > 0.0 {
            self.between_reports.add(at_most(MAX_INTERVALS * interval, seconds), seconds);
        }
        self.received = Some(received);
        if let Some(mut report) = report {
            if let Some(busy) = report.measured.busy_workers {
                self.busy_workers = (busy, received);
            } else {
                report.measured.busy_workers = self.missing_busy_workers(&report, received);
            }
            self.observe_metrics(report, seconds, interval);
        }
        self.interval = at_least(interval, self.between_reports.value.unwrap_or(0.0));
        self.overdue_at = received + OVERDUE_AFTER * self.interval;
    }

    fn observe_metrics(&mut self, report: Report, seconds: f64, interval: f64) {
        self.counted |= report.measured.requests_total.is_some();
        if let Some(last) = self.last.replace((&report).into()).filter(|_| seconds > 0.0) {
            self.work.fade(seconds, WORK);
            self.recent.fade(seconds, RECENT);
            let status_requests = at_least(1.0, (seconds / interval).round_ties_even());
            self.newest =
                served_between(&last.counters, &report.measured, seconds, status_requests).unwrap_or((0.0, 0.0));
            self.work.add(self.newest);
            self.recent.add(self.newest);
            self.contention.observe(&last, &report, seconds);
        }
        let lasted = if seconds != 0.0 { seconds } else { interval };
        if let Some(rate) = report.measured.requests_per_s {
            self.requests_per_s.add(rate, lasted);
        }
        self.load = report.load();
        if let Some(load) = self.load {
            self.in_progress.add(load, lasted);
        }
    }

    /// Return load, cores, requests/s and requests in progress.
    pub fn averages(&self) -> (Option<f64>, Option<f64>, Option<f64>, Option<f64>) {
        let cores = self.last.as_ref().and_then(|last| last.counters.cpu_count);
        (self.load, cores, self.requests_per_s.value, self.in_progress.value)
    }

    /// Return requests, CPU seconds, the relative variance of the speed, and whether requests were ever reported.
    pub fn served(&self) -> (f64, f64, f64, bool) {
        (self.work.requests, self.work.cpu_seconds, self.work.relative_variance(), self.counted)
    }

    pub fn recent_requests(&self) -> f64 {
        self.recent.requests
    }

    /// Return the squared relative spread of the cost of one request, or None if it is unknown.
    pub fn squared_spread(&self) -> Option<f64> {
        (self.work.speed() > 0.0).then(|| self.work.relative_variance() * self.work.sample_size())
    }

    /// Return whether the cost of requests has changed by more than chance explains.
    pub fn has_changed(&self, spread: f64) -> bool {
        let (sample, speed) = (self.recent.sample_size(), self.work.speed());
        let change = if speed == 0.0 {
            0.0
        } else {
            ((self.recent.requests / speed + MIN_CPU) / (self.recent.cpu_seconds + MIN_CPU)).ln()
        };
        sample >= 1.0 && change.abs() > UNLIKELY * (spread / sample).sqrt()
    }

    pub fn forget(&mut self) {
        self.work = FadingWork::default();
        self.recent = FadingWork::default();
        self.work.add(self.newest);
        self.recent.add(self.newest);
    }

    pub fn available_share(&self, cores: f64) -> f64 {
        self.contention.available_share(cores)
    }

    pub fn other_tasks(&self, cores: f64) -> f64 {
        self.contention.other_tasks(cores)
    }

    pub fn standstill(&self, cores: f64) -> f64 {
        self.contention.standstill(cores)
    }
}
