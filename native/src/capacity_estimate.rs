//! Estimates the members' capacities from what they have served.
//!
//! The Python code in `lbdns/choosing/capacity_estimate.py` and `robust_estimates.py` computes the same numbers in the
//! same order of operations, and explains them. It also owns the constants, which it passes as arguments.

use crate::planning_arithmetic::{Adding, Speeds};

const LEAST: f64 = 1e-9; // requests/s: every capacity is above 0

/// What the members have served, by column.
pub struct ServedWork<'a> {
    pub requests: &'a [f64],
    pub cpu_seconds: &'a [f64],
    pub variances: &'a [f64],
    pub counted: &'a [bool],
}

/// The constants of the estimate.
pub struct EstimateLimits {
    pub prior: f64,
    pub max_speed: f64,
    pub min_variance: f64,
    pub most_faster: f64,
    pub steps: u32,
}

/// The two largest values; negative infinity for each that is missing.
fn two_largest(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for value in values {
        if value > first {
            (first, second) = (value, first);
        } else if value > second {
            second = value;
        }
    }
    (first, second)
}

fn winsorised(values: &[f64]) -> Vec<f64> {
    if values.len() < 3 {
        return values.to_vec();
    }
    let (_, high) = two_largest(values.iter().copied());
    let (_, low) = two_largest(values.iter().map(|value| -value));
    let low = -low;
    values
        .iter()
        .map(|&value| {
            if value < low {
                low
            } else if high < value {
                high
            } else {
                value
            }
        })
        .collect()
}

fn limited_weights(weights: &[f64], adding: Adding) -> Vec<f64> {
    let (first, second) = two_largest(weights.iter().copied().chain([0.0, 0.0]));
    let rest = adding.sum(weights.iter().copied()) - first;
    let limit = if second <= rest / 2.0 { rest / 2.0 } else { rest - second };
    if limit > 0.0 {
        weights.iter().map(|&weight| if limit < weight { limit } else { weight }).collect()
    } else {
        weights.to_vec()
    }
}

pub fn robust_mean(values: &[f64], weights: &[f64], adding: Adding) -> f64 {
    let known: Vec<(f64, f64)> =
        values.iter().copied().zip(weights.iter().copied()).filter(|(_, weight)| *weight > 0.0).collect();
    let limited = limited_weights(&known.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(), adding);
    let most = limited.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let inner = winsorised(&known.iter().map(|(value, _)| *value).collect::<Vec<_>>());
    let total = adding.sum(inner.iter().zip(&limited).map(|(value, weight)| value * (weight / most)));
    total / adding.sum(limited.iter().map(|weight| weight / most))
}

impl ServedWork<'_> {
    fn common_speed(&self, limits: &EstimateLimits, adding: Adding) -> f64 {
        let known: Vec<(f64, f64)> = (self.requests.iter().zip(self.cpu_seconds))
            .filter(|(requests, cpu)| **requests > 0.0 && **cpu > 0.0)
            .map(|(&requests, &cpu)| {
                let speed = requests / cpu;
                (if speed < limits.max_speed { speed } else { limits.max_speed }, cpu)
            })
            .filter(|(speed, _)| *speed > 0.0)
            .collect();
        let speeds: Vec<f64> = known.iter().map(|(speed, _)| *speed).collect();
        if speeds.is_empty() {
            return 0.0;
        }
        if self.counted.iter().filter(|counted| **counted).count() < 3 {
            return speeds.into_iter().fold(f64::INFINITY, f64::min);
        }
        let weights: Vec<f64> = known.iter().map(|(_, cpu)| cpu / (cpu + limits.prior)).collect();
        robust_mean(&speeds, &weights, adding)
    }

    /// Return each member's speed in requests per CPU second.
    fn speeds(&self, limits: &EstimateLimits, adding: Adding) -> Vec<f64> {
        let common = self.common_speed(limits, adding);
        let speed = |i: usize| {
            if self.counted[i] {
                (self.requests[i] + limits.prior * common) / (self.cpu_seconds[i] + limits.prior)
            } else {
                common
            }
        };
        let speeds: Vec<f64> = (0..self.requests.len()).map(speed).collect();
        let variance = |i: usize| {
            let known = self.counted[i] && self.variances[i] < f64::INFINITY;
            known.then(|| if limits.min_variance > self.variances[i] { limits.min_variance } else { self.variances[i] })
        };
        let (mut known, mut variances) = (Vec::new(), Vec::new());
        for (i, &speed) in speeds.iter().enumerate() {
            if let Some(variance) = variance(i) {
                known.push(speed);
                variances.push(variance);
            }
        }
        if known.is_empty() {
            return speeds;
        }
        let inner = winsorised(&known);
        let observed = Speeds { speeds: &known, variances: &variances, inner: &inner, adding };
        let between = observed.variance_between(limits.steps);
        let mean = observed.mean(between);
        let shrunk = |(i, speed): (usize, f64)| match variance(i) {
            Some(variance) => mean + (speed - mean) * between / (between + variance),
            None => speed,
        };
        speeds.into_iter().enumerate().map(shrunk).collect()
    }

    /// Return each member's capacity in requests/s. The pool must have served enough requests.
    pub fn capacities(&self, cores: &[f64], gain: f64, limits: &EstimateLimits, adding: Adding) -> Vec<f64> {
        let found: Vec<f64> = (self.speeds(limits, adding).into_iter().zip(cores))
            .map(|(speed, m)| if m * speed > LEAST { m * speed } else { LEAST })
            .collect();
        let mut limited = found.clone();
        for (i, proven) in proven_capacities(&found, cores, self.counted).into_iter().enumerate() {
            if found[i] > proven {
                let others = adding.sum(found.iter().copied()) - found[i];
                let room = others - (gain - 1.0) * proven;
                let most = if room > 0.0 { gain * proven * others / room } else { f64::INFINITY };
                limited[i] = found[i].min(most).min(limits.most_faster * gain * proven);
            }
        }
        limited
    }
}

/// Return each member's capacity, but limit the fastest member's speed to that of the next fastest member.
pub fn proven_capacities(capacity: &[f64], cores: &[f64], counted: &[bool]) -> Vec<f64> {
    let speeds = || (0..capacity.len()).filter(|i| counted[*i]).map(|i| capacity[i] / cores[i]);
    if speeds().take(2).count() < 2 {
        return capacity.to_vec();
    }
    let (_, second) = two_largest(speeds());
    let most = |(c, m): (&f64, &f64)| if m * second < *c { m * second } else { *c };
    capacity.iter().zip(cores).map(most).collect()
}
