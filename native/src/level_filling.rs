//! Level filling: splits an amount so that all members reach the same level.
//!
//! The Python code in `lbdns/policies/best.py` and `level_filling.py` computes the same numbers in the same order of
//! operations, and explains them. It also owns the constants, which it passes as arguments.

use crate::planning_arithmetic::Adding;

/// Return the level L (load per width) that solves `sum(max(0, L * width - load)) = amount`.
fn water_level(mut members: Vec<(f64, f64, f64)>, amount: f64, adding: Adding) -> f64 {
    loop {
        let total = adding.sum(members.iter().map(|member| member.1));
        let level = (amount + total) / adding.sum(members.iter().map(|member| member.2));
        let size = members.len();
        members.retain(|member| member.0 < level);
        if members.len() == size || members.is_empty() {
            return level;
        }
    }
}

/// Split `amount` into parts, each within its limit, that bring all members to the same level.
pub fn fill_to_level(loads: &[f64], widths: &[f64], limits: &[f64], amount: f64, adding: Adding) -> Vec<f64> {
    let mut parts = vec![0.0; loads.len()];
    let (mut unlimited, mut rest): (Vec<usize>, f64) = ((0..loads.len()).collect(), amount);
    while !unlimited.is_empty() && rest > 0.0 {
        let members = unlimited.iter().map(|&i| (loads[i] / widths[i], loads[i], widths[i])).collect();
        let level = water_level(members, rest, adding);
        let (full, others): (Vec<usize>, Vec<usize>) =
            unlimited.iter().partition(|&&i| level * widths[i] - loads[i] >= limits[i]);
        if full.is_empty() {
            for i in others {
                let part = level * widths[i] - loads[i];
                parts[i] = if part > 0.0 { part } else { 0.0 };
            }
            return parts;
        }
        for i in full {
            parts[i] = limits[i];
        }
        rest = amount - adding.sum(parts.iter().copied());
        unlimited = others;
    }
    let total = adding.sum(parts.iter().copied());
    parts.into_iter().map(|part| part * amount / total).collect()
}

/// How level filling corrects and limits the members' shares.
pub struct FillingLimits {
    pub expected: f64,               // requests
    pub min_share: f64,              // of a member's share by capacity
    pub min_utilisation: f64,        // of the pool
    pub half_corrected: Option<f64>, // requests, or None if every deviation is corrected fully
    pub most: Vec<(usize, f64)>,     // members whose parts are limited, and the limits in requests
}

/// Return the shares that bring all members to the same level above their operating points.
pub fn level_filling(
    loads: &[f64],
    capacities: &[f64],
    point: (Vec<f64>, Vec<f64>),
    requests: f64,
    limits: &FillingLimits,
    adding: Adding,
) -> Vec<f64> {
    let (mut widths, ideal) = point;
    let utilisation = requests / adding.sum(capacities.iter().copied());
    let utilisation = if limits.min_utilisation > utilisation { limits.min_utilisation } else { utilisation };
    let least = limits.min_share * utilisation;
    for (width, capacity) in widths.iter_mut().zip(capacities) {
        if least * capacity > *width {
            *width = least * capacity;
        }
    }
    let mut gaps: Vec<f64> = loads.iter().zip(ideal).map(|(load, ideal)| load - ideal).collect();
    if let Some(half) = limits.half_corrected {
        for gap in &mut gaps {
            *gap = *gap * gap.abs() / (gap.abs() + half);
        }
    }
    let mut most = vec![f64::INFINITY; loads.len()];
    for &(member, limit) in &limits.most {
        most[member] = limit;
    }
    let parts = fill_to_level(&gaps, &widths, &most, limits.expected, adding);
    parts.into_iter().map(|part| part / limits.expected).collect()
}
