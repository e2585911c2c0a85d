//! Colours and patterns of lines: in a comparison the colour is the policy, the pattern the level.

use std::collections::BTreeSet;

use plotters::prelude::RGBColor;
use xsched_policies::Any;

use super::compare::Combination;
use crate::run::policy_names;
use crate::scenario::System;

/// Colours that people with the common kinds of colour blindness can tell apart and that show well
/// on white (after Okabe and Ito, without the yellow).
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
];
/// Solid, dashed and dotted: the lengths of a dash and of the gap after it.
const PATTERNS: [Option<(i32, i32)>; 3] = [None, Some((12, 6)), Some((3, 5))];
/// Lines that can be told apart by their numbers.
pub(crate) const MAX_STYLES: usize = PALETTE.len() * PATTERNS.len();
/// Kinds that can be told apart: each colour comes again, darker, lighter and darkest.
const MAX_KINDS: usize = PALETTE.len() * 4;
/// Places in the palette that a policy goes on by when its colours come again: those that are
/// compared most have different ones then.
const ROW_SHIFT: usize = 2;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: RGBColor,
    /// The lengths of a dash and of the gap after it; `None` for a solid line.
    pub(crate) pattern: Option<(i32, i32)>,
    /// Width in halves of a pixel.
    pub(crate) width: u32,
}

/// Width of the last line that is drawn, and the most that earlier ones have, so that they can be
/// seen behind it.
const WIDTH: u32 = 4;
const WIDTH_MAX: u32 = 8;

impl Style {
    /// The style with this number. When the colours run out they come again in the next pattern.
    pub(crate) const fn numbered(number: usize) -> Self {
        Self {
            color: PALETTE[number % PALETTE.len()],
            pattern: PATTERNS[number / PALETTE.len() % PATTERNS.len()],
            width: WIDTH,
        }
    }

    /// As it is seen behind this many lines that are drawn later.
    pub(crate) fn behind(self, later: usize) -> Self {
        let wider = u32::try_from(later).unwrap_or(WIDTH_MAX).min(WIDTH_MAX);
        Self { width: WIDTH_MAX.min(self.width + 2 * wider), ..self }
    }
}

/// The colour of a kind. When the colours run out they come again, darker, then lighter and
/// darkest.
pub(crate) const fn shade(index: usize) -> RGBColor {
    let RGBColor(red, green, blue) = PALETTE[index % PALETTE.len()];
    match index / PALETTE.len() % 4 {
        0 => RGBColor(red, green, blue),
        1 => RGBColor(red / 2, green / 2, blue / 2),
        2 => RGBColor(lighter(red), lighter(green), lighter(blue)),
        _ => RGBColor(red / 4, green / 4, blue / 4),
    }
}

/// Half way to white.
const fn lighter(part: u8) -> u8 {
    part / 2 + 128
}

/// The colour of a policy or a system, by its place in the list of all.
const fn own_color(place: usize) -> usize {
    let row = place / PALETTE.len();
    row * PALETTE.len() + (place + row * ROW_SHIFT) % PALETTE.len()
}

/// The styles of these combinations, in their order. The colour is that of the policy. If there are
/// several levels, the pattern is that of the level: solid for Lv1, dashed for Lv2, dotted for Lv3.
/// `None` where the colours have run out. The lines of a policy are wider than those of later ones.
pub(crate) fn styles(combinations: &[Combination]) -> Vec<Option<Style>> {
    let mut names: Vec<&str> = Vec::new();
    for one in combinations {
        if !names.contains(&one.policy.as_str()) {
            names.push(&one.policy);
        }
    }
    let colors = colors(names.clone());
    let patterned = several_levels(combinations);
    let style = |one: &Combination| {
        let color = colors.iter().find(|(policy, _)| *policy == one.policy)?.1;
        let later = names.iter().rev().position(|name| *name == one.policy).unwrap_or(0);
        let place = one.level.filter(|_| patterned).map_or(0, |level| usize::from(level) - 1);
        let pattern = PATTERNS[place % PATTERNS.len()];
        Some(Style { color: shade(color), pattern, width: WIDTH }.behind(later))
    };
    combinations.iter().map(style).collect()
}

/// True if these combinations have more than one level.
pub(crate) fn several_levels(combinations: &[Combination]) -> bool {
    combinations.iter().filter_map(|one| one.level).collect::<BTreeSet<_>>().len() > 1
}

/// The names with their colours. A policy or a system has one colour in every picture; other names
/// have what is left, the last of the palette first.
fn colors(names: Vec<&str>) -> Vec<(&str, usize)> {
    let own = |name: &&str| place(name).map(own_color);
    let known = names.iter().filter_map(|name| Some((*name, own(name)?)));
    let mut colors: Vec<(&str, usize)> = known.collect();
    for name in names.into_iter().filter(|name| own(name).is_none()) {
        let mut slots = (0..PALETTE.len()).rev().chain(PALETTE.len()..MAX_KINDS);
        let is_free = |slot: &usize| colors.iter().all(|(_, taken)| taken != slot);
        if let Some(slot) = slots.find(is_free) {
            colors.push((name, slot));
        }
    }
    colors
}

/// Where a policy or a system stands in the list of all.
fn place(name: &str) -> Option<usize> {
    let policies = policy_names();
    match name.parse::<Any>() {
        Ok(policy) => {
            use xsched_core::policy::Policy;
            policies.iter().position(|known| *known == policy.name())
        }
        Err(_) => name.parse().ok().map(|system: System| policies.len() + system as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::combinations;

    fn drawn(policies: &[&str], levels: &[u8]) -> Vec<(String, Option<Style>)> {
        let policies: Vec<String> = policies.iter().map(|&name| name.to_owned()).collect();
        let all = combinations(&policies, levels, |policy| policy == "fcfs");
        all.iter().map(Combination::label).zip(styles(&all)).collect()
    }

    fn style(drawn: &[(String, Option<Style>)], label: &str) -> Style {
        let found = drawn.iter().find(|(name, _)| name == label).and_then(|(_, style)| *style);
        found.unwrap_or_else(|| panic!("{label} is not in {drawn:?}"))
    }

    #[test]
    fn the_colour_is_the_policy_and_the_pattern_the_level() {
        let drawn = drawn(&["fcfs", "hpf", "wfq"], &[1, 2, 3]);
        let of = |label: &str| style(&drawn, label);
        for policy in ["hpf", "wfq"] {
            let [one, two, three] = [1, 2, 3].map(|level| of(&format!("{policy} Lv{level}")));
            assert!(one.color == two.color && two.color == three.color, "{policy}");
            assert_eq!([one, two, three].map(|style| style.pattern), PATTERNS);
        }
        assert_eq!(of("hpf Lv2").pattern, of("wfq Lv2").pattern);
        let colors = ["fcfs", "hpf Lv1", "wfq Lv1"].map(|label| of(label).color);
        assert!(colors[0] != colors[1] && colors[1] != colors[2] && colors[0] != colors[2]);
    }

    #[test]
    fn a_policy_keeps_its_colour() {
        let (one, other) = (drawn(&["hpf", "fcfs"], &[2]), drawn(&["edf", "wfq", "hpf"], &[2, 3]));
        assert_eq!(style(&one, "hpf Lv2").color, style(&other, "hpf Lv2").color);
        let reversed = drawn(&["hpf", "wfq", "edf"], &[2, 3]);
        for label in ["hpf Lv2", "wfq Lv3", "edf Lv2"] {
            assert_eq!(style(&reversed, label).color, style(&other, label).color, "{label}");
        }
        // The long name is the same policy.
        let long = drawn(&["highest_priority_first"], &[2]);
        let long = style(&long, "highest_priority_first Lv2");
        assert_eq!(long.color, style(&one, "hpf Lv2").color);
        assert!(style(&one, "hpf Lv2").width > style(&one, "fcfs").width, "seen behind it");
        // One level alone needs no pattern.
        assert_eq!(style(&one, "hpf Lv2").pattern, None);
    }

    #[test]
    fn all_colours_differ_until_they_run_out() {
        let systems = System::ALL.map(System::name);
        let others = ["mine-0", "mine-1", "mine-2"];
        let names = [policy_names(), &systems, &others].concat();
        let drawn = drawn(&names, &[2]);
        let color = |(_, style): &(String, Option<Style>)| Some(style.as_ref()?.color);
        let colors: Vec<_> = drawn.iter().filter_map(color).collect();
        assert_eq!(colors.len(), MAX_KINDS);
        let differ = |n: usize| !colors[..n].contains(&colors[n]);
        assert!((0..colors.len()).all(differ), "{colors:?}");
        assert!(drawn.last().is_some_and(|(_, style)| style.is_none()));
    }

    #[test]
    fn a_colour_does_not_depend_on_what_else_is_drawn() {
        for name in policy_names() {
            let alone = style(&drawn(&[name], &[2]), &label(name)).color;
            for other in policy_names().iter().filter(|other| *other != name) {
                let beside = style(&drawn(&[other, name], &[2]), &label(name)).color;
                assert_eq!(alone, beside, "{name} beside {other}");
            }
        }
    }

    fn label(name: &str) -> String {
        if name == "fcfs" { name.to_owned() } else { format!("{name} Lv2") }
    }

    #[test]
    fn colours_that_come_again_are_others() {
        let mut seen = Vec::new();
        for color in (0..MAX_KINDS).map(shade) {
            assert!(!seen.contains(&color), "{color:?}");
            seen.push(color);
        }
        assert_eq!(shade(6), PALETTE[6]);
    }
}
