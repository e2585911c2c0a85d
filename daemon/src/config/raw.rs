//! The file as it is written, and what has to be true of it.

use std::fmt::{self, Display};
use std::ops::Range;
use std::sync::Arc;

use glob::Pattern;
use nix::unistd::{Group, User};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use xsched_core::hint::{OutOfRange, PolicyHint, Priority};
use xsched_core::policy::Policy as _;
use xsched_core::time::Duration;
use xsched_node::entity::Trial;
use xsched_policies::Any;

use super::{Admins, CLIENTS_MAX, Config, FirstHold, Limits, PolicyChoice, Socket, line_of};
use crate::metrics::Place;
use crate::tenant::{DEFAULT, Sees, Tenant, Unreported};

/// Description of an error in the text, and its byte.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) what: String,
}

fn wrong(at: &Range<usize>, what: impl Display) -> Wrong {
    Wrong { at: at.start, what: what.to_string() }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    socket: RawSocket,
    policy: Option<Spanned<PolicyKey>>,
    scheduler: RawScheduler,
    admins: RawAdmins,
    limits: RawLimits,
    metrics: RawMetrics,
    watch: RawWatch,
    tenant: Vec<Spanned<RawTenant>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawSocket {
    path: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    group: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawPolicy {
    name: Option<Spanned<String>>,
    timeslice_us: Option<Spanned<u64>>,
    turns: Option<Spanned<bool>>,
    fill_pauses: Option<Spanned<bool>>,
    fill_pauses_trial_ms: Option<Spanned<u32>>,
    fill_pauses_least: Option<Spanned<u32>>,
    k: Option<Spanned<u32>>,
    ageing_ms: Option<Spanned<u64>>,
    stall_ms: Option<Spanned<u32>>,
    floor: Option<Spanned<f64>>,
}

/// The key `policy`: a name, or a table.
#[derive(Debug)]
enum PolicyKey {
    Name(String),
    Table(Box<RawPolicy>),
}

impl<'de> Deserialize<'de> for PolicyKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = PolicyKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a policy, as in policy = \"hpf\", or a table [policy]")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<PolicyKey, E> {
        Ok(PolicyKey::Name(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PolicyKey, A::Error> {
        let table = RawPolicy::deserialize(MapAccessDeserializer::new(map));
        table.map(|raw| PolicyKey::Table(Box::new(raw)))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawScheduler {
    spin_us: Option<Spanned<u32>>,
    spin_percent: Option<Spanned<u32>>,
    gang_claim_us: Option<Spanned<u32>>,
    direct_holds: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawAdmins {
    users: Vec<Spanned<String>>,
    groups: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawLimits {
    clients: Option<Spanned<u32>>,
    clients_of_user: Option<Spanned<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawMetrics {
    listen: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawWatch {
    drivers: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTenant {
    name: Spanned<String>,
    user: Option<Spanned<String>>,
    uid: Option<Spanned<u32>>,
    group: Option<Spanned<String>>,
    cgroup: Option<Spanned<String>>,
    class: Option<Spanned<Class>>,
    priority: Option<Spanned<PriorityKey>>,
    share: Option<Spanned<u32>>,
    priority_max: Option<Spanned<PriorityKey>>,
    share_max: Option<Spanned<u32>>,
    clients_max: Option<Spanned<u32>>,
    queues_max: Option<Spanned<u32>>,
    #[serde(default)]
    sees: Sees,
    #[serde(default)]
    unreported: Unreported,
}

/// As `xsched run --class` has them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Class {
    Interactive = 100,
    Normal = 0,
    Batch = -100,
}

/// A priority: a number, or the name of a class.
#[derive(Clone, Copy, Debug)]
struct PriorityKey(i32);

impl<'de> Deserialize<'de> for PriorityKey {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PriorityVisitor)
    }
}

struct PriorityVisitor;

impl Visitor<'_> for PriorityVisitor {
    type Value = PriorityKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-255 to 255, or a class: \"interactive\", \"normal\" or \"batch\"")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PriorityKey, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(number), &self);
        i32::try_from(number).map(PriorityKey).map_err(wrong)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<PriorityKey, E> {
        let class = Class::deserialize(name.into_deserializer());
        let wrong = |_: E| E::invalid_value(Unexpected::Str(name), &self);
        class.map(|class| PriorityKey(class as i32)).map_err(wrong)
    }
}

pub(super) fn parse(text: &str) -> Result<Config, Wrong> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().unwrap_or_default();
        match key_at(text, at.start) {
            // What it says of a value alone.
            Some(key) if error.message().starts_with("invalid ") => {
                wrong(&at, format!("{key}: {}", error.message()))
            }
            _ => wrong(&at, error.message()),
        }
    })?;
    let defaults = Config::default();
    let percent = |percent| within(percent, 0, 100, |percent| percent as u8);
    let spin_percent = ranged(file.scheduler.spin_percent.as_ref(), "spin_percent", percent)?;
    Ok(Config {
        socket: socket(&file.socket)?,
        policy: file.policy.as_ref().map_or_else(|| Ok(PolicyChoice::default()), policy_key)?,
        spin: span_us(file.scheduler.spin_us.as_ref(), "spin_us")?.unwrap_or(defaults.spin),
        spin_percent: spin_percent.unwrap_or(defaults.spin_percent),
        gang_claim: span_us(file.scheduler.gang_claim_us.as_ref(), "gang_claim_us")?
            .unwrap_or(defaults.gang_claim),
        first_hold: match file.scheduler.direct_holds {
            Some(false) => FirstHold::Daemon,
            Some(true) | None => FirstHold::Process,
        },
        admins: admins(&file.admins)?,
        limits: limits(&file.limits)?,
        metrics: file.metrics.listen.as_ref().map(place).transpose()?,
        asks_drivers: file.watch.drivers.unwrap_or(true),
        tenants: tenants(text, &file.tenant)?,
        has_file: false,
    })
}

/// The key whose value begins at this byte.
fn key_at(text: &str, at: usize) -> Option<&str> {
    let line = text.get(..at)?.rsplit('\n').next()?;
    let (key, _) = line.split_once('=')?;
    Some(key.trim())
}

fn socket(raw: &RawSocket) -> Result<Socket, Wrong> {
    let absolute = |path: &Spanned<String>| {
        let is_absolute = path.get_ref().starts_with('/');
        let what = "path: the socket needs an absolute path";
        if is_absolute { Ok(path.get_ref().into()) } else { Err(wrong(&path.span(), what)) }
    };
    let mode = |mode: &Spanned<String>| {
        let number = u32::from_str_radix(mode.get_ref(), 8).ok().filter(|mode| *mode <= 0o777);
        let what = "mode: say it in octal digits up to 777, as in \"0660\"";
        number.ok_or_else(|| wrong(&mode.span(), what))
    };
    Ok(Socket {
        path: raw.path.as_ref().map(absolute).transpose()?,
        mode: raw.mode.as_ref().map(mode).transpose()?,
        gid: raw.group.as_ref().map(group).transpose()?,
    })
}

fn place(text: &Spanned<String>) -> Result<Place, Wrong> {
    let place = text.get_ref().parse::<Place>();
    place.map_err(|error| wrong(&text.span(), format!("listen: {error}")))
}

fn user(name: &Spanned<String>) -> Result<u32, Wrong> {
    match User::from_name(name.get_ref()) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => {
            let what = format!("there is no user `{}` on this machine", name.get_ref());
            Err(wrong(&name.span(), what))
        }
        Err(errno) => {
            let what = format!("the user `{}` cannot be looked up: {errno}", name.get_ref());
            Err(wrong(&name.span(), what))
        }
    }
}

fn group(name: &Spanned<String>) -> Result<u32, Wrong> {
    match Group::from_name(name.get_ref()) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => {
            let what = format!("there is no group `{}` on this machine", name.get_ref());
            Err(wrong(&name.span(), what))
        }
        Err(errno) => {
            let what = format!("the group `{}` cannot be looked up: {errno}", name.get_ref());
            Err(wrong(&name.span(), what))
        }
    }
}

/// The value that stands there, brought into range by `make`.
fn ranged<T: Copy, U>(
    raw: Option<&Spanned<T>>,
    key: &str,
    make: impl FnOnce(T) -> Result<U, OutOfRange>,
) -> Result<Option<U>, Wrong> {
    let Some(raw) = raw else { return Ok(None) };
    match make(*raw.get_ref()) {
        Ok(value) => Ok(Some(value)),
        Err(OutOfRange { min, max, value, .. }) => {
            Err(wrong(&raw.span(), format!("{key} must be {min} to {max}, is {value}")))
        }
    }
}

fn within<T>(value: u32, min: i64, max: i64, of: impl FnOnce(u32) -> T) -> Result<T, OutOfRange> {
    let value_wide = i64::from(value);
    if (min..=max).contains(&value_wide) {
        return Ok(of(value));
    }
    Err(OutOfRange { hint: "", min, max, value: value_wide })
}

fn policy_key(key: &Spanned<PolicyKey>) -> Result<PolicyChoice, Wrong> {
    match key.get_ref() {
        PolicyKey::Name(name) => {
            let name = policy_name(name, "policy", &key.span())?;
            Ok(PolicyChoice { name, ..PolicyChoice::default() })
        }
        PolicyKey::Table(raw) => policy(raw),
    }
}

/// The short name of a policy.
fn policy_name(name: &str, key: &str, at: &Range<usize>) -> Result<String, Wrong> {
    let known = name.parse::<Any>();
    let known = known.map_err(|error| wrong(at, format!("{key}: {error}")))?;
    Ok(known.name().to_owned())
}

fn policy(raw: &RawPolicy) -> Result<PolicyChoice, Wrong> {
    let mut choice = PolicyChoice::default();
    if let Some(name) = &raw.name {
        choice.name = policy_name(name.get_ref(), "name", &name.span())?;
    }
    if let Some(turns) = &raw.turns {
        if choice.name != "hpf" {
            let what =
                format!("policy `{}` has no turns to do without; take the key out", choice.name);
            return Err(wrong(&turns.span(), what));
        }
        choice.takes_turns = *turns.get_ref();
        if let Some(slice) = raw.timeslice_us.as_ref().filter(|_| !choice.takes_turns) {
            let what = "timeslice_us is that of turns, and there are none; take one of both out";
            return Err(wrong(&slice.span(), what));
        }
    }
    if let Some(fill) = &raw.fill_pauses {
        if choice.name != "hpf" {
            let what =
                format!("policy `{}` holds nothing in pauses; take the key out", choice.name);
            return Err(wrong(&fill.span(), what));
        }
        choice.fill_pauses = fill.get_ref().then(Trial::default);
    }
    set_trial(raw, &mut choice)?;
    let stall = |ms| within(ms, 0, 60_000, |ms| Duration::from_ms(ms.into()));
    if let Some(stall) = ranged(raw.stall_ms.as_ref(), "stall_ms", stall)? {
        choice.stall = (stall > Duration::ZERO).then_some(stall);
    }
    if let Some(floor) = &raw.floor {
        choice.floor_permille = floor_permille(floor)?;
    }
    let age = |ms: u64| PolicyHint::ageing(Some(Duration::from_ns(ms.saturating_mul(1_000_000))));
    let slice = |us: u64| PolicyHint::timeslice(Duration::from_ns(us.saturating_mul(1_000)));
    let hints = [
        (
            ranged(raw.timeslice_us.as_ref(), "timeslice_us", slice)?,
            "timeslice_us",
            span(&raw.timeslice_us),
        ),
        (ranged(raw.k.as_ref(), "k", PolicyHint::k)?, "k", span(&raw.k)),
        (ranged(raw.ageing_ms.as_ref(), "ageing_ms", age)?, "ageing_ms", span(&raw.ageing_ms)),
    ];
    for (hint, key, span) in hints {
        let Some(hint) = hint else { continue };
        let mut policy = choice.name.parse::<Any>().map_err(|error| wrong(&span, error))?;
        if !policy.configure(hint) {
            let what = format!("policy `{}` has no {key}; take the key out", choice.name);
            return Err(wrong(&span, what));
        }
        choice.hints.push(hint);
    }
    Ok(choice)
}

/// A share of the device time, as a fraction.
fn floor_permille(floor: &Spanned<f64>) -> Result<u16, Wrong> {
    let value = *floor.get_ref();
    if !(0.0..=0.5).contains(&value) {
        return Err(wrong(&floor.span(), format!("floor must be 0 to 0.5, is {value}")));
    }
    Ok((value * 1_000.0).round() as u16)
}

/// A time of up to a second.
fn span_us(raw: Option<&Spanned<u32>>, key: &str) -> Result<Option<Duration>, Wrong> {
    ranged(raw, key, |us| within(us, 0, 1_000_000, |us| Duration::from_us(us.into())))
}

/// Sets how lower priorities are tried beside processes that are bound by their hosts.
fn set_trial(raw: &RawPolicy, choice: &mut PolicyChoice) -> Result<(), Wrong> {
    let window = |ms| within(ms, 1, 60_000, |ms| Duration::from_ms(ms.into()));
    let window = ranged(raw.fill_pauses_trial_ms.as_ref(), "fill_pauses_trial_ms", window)?;
    let least = |percent| within(percent, 1, 100, |percent| percent as u8);
    let least = ranged(raw.fill_pauses_least.as_ref(), "fill_pauses_least", least)?;
    if window.is_none() && least.is_none() {
        return Ok(());
    }
    let Some(trial) = choice.fill_pauses.as_mut().filter(|_| choice.name == "hpf") else {
        let of_trial = span(&raw.fill_pauses_trial_ms);
        let at = if window.is_some() { of_trial } else { span(&raw.fill_pauses_least) };
        return Err(wrong(
            &at,
            "nothing is tried in pauses, which are not filled; take the key out",
        ));
    };
    trial.window = window.unwrap_or(trial.window);
    trial.least_percent = least.unwrap_or(trial.least_percent);
    Ok(())
}

fn span<T>(raw: &Option<Spanned<T>>) -> Range<usize> {
    raw.as_ref().map(Spanned::span).unwrap_or_default()
}

fn admins(raw: &RawAdmins) -> Result<Admins, Wrong> {
    Ok(Admins {
        uids: raw.users.iter().map(user).collect::<Result<_, _>>()?,
        gids: raw.groups.iter().map(group).collect::<Result<_, _>>()?,
    })
}

fn limits(raw: &RawLimits) -> Result<Limits, Wrong> {
    let within = |value| within(value, 1, i64::from(CLIENTS_MAX), |value| value);
    let defaults = Limits::default();
    let clients = ranged(raw.clients.as_ref(), "clients", within)?;
    let of_user = ranged(raw.clients_of_user.as_ref(), "clients_of_user", within)?;
    Ok(Limits {
        clients: clients.unwrap_or(defaults.clients),
        clients_of_user: of_user.unwrap_or(defaults.clients_of_user),
    })
}

fn tenants(text: &str, raw: &[Spanned<RawTenant>]) -> Result<Vec<Arc<Tenant>>, Wrong> {
    let mut tenants = Vec::<Arc<Tenant>>::with_capacity(raw.len() + 1);
    for raw in raw {
        let name = &raw.get_ref().name;
        if let Some(before) = tenants.last().filter(|tenant| tenant.fits_all()) {
            let what = format!(
                "nothing comes to this tenant, since `{}` before it fits all; give that one a \
                 user, uid, group or cgroup, or put it last",
                before.name
            );
            return Err(wrong(&name.span(), what));
        }
        if tenants.iter().any(|tenant| tenant.name == *name.get_ref()) {
            return Err(wrong(&name.span(), "two tenants have this name"));
        }
        tenants.push(Arc::new(tenant(text, raw.get_ref())?));
    }
    let named_default = raw.iter().find(|raw| raw.get_ref().name.get_ref() == DEFAULT);
    if !tenants.last().is_some_and(|tenant| tenant.fits_all()) {
        if let Some(raw) = named_default {
            let what = "`default` is the tenant of the rest: it has no user, uid, group or cgroup";
            return Err(wrong(&raw.get_ref().name.span(), what));
        }
        tenants.push(Arc::default());
    }
    Ok(tenants)
}

fn tenant(text: &str, raw: &RawTenant) -> Result<Tenant, Wrong> {
    let name = raw.name.get_ref();
    let is_name = (1..=64).contains(&name.len()) && !name.chars().any(char::is_control);
    if !is_name {
        return Err(wrong(&raw.name.span(), "a name has 1 to 64 bytes and no control characters"));
    }
    if let (Some(user), Some(uid)) = (&raw.user, &raw.uid) {
        return Err(Key::of("user", user).is_the_same_as(&Key::of("uid", uid), text));
    }
    let user = raw.user.as_ref().map(user).transpose()?;
    let share = |key, raw: Option<&Spanned<u32>>| {
        ranged(raw, key, |value| within(value, 0, 100, |value| value as u8))
    };
    let count = |key, raw: Option<&Spanned<u32>>| {
        ranged(raw, key, |value| within(value, 1, i64::from(u32::MAX), |value| value))
    };
    let tenant = Tenant {
        name: name.clone(),
        uid: user.or(raw.uid.as_ref().map(|uid| *uid.get_ref())),
        gid: raw.group.as_ref().map(group).transpose()?,
        cgroup: raw.cgroup.as_ref().map(cgroup).transpose()?,
        priority: priority(text, raw)?,
        share: share("share", raw.share.as_ref())?,
        priority_max: ranged(raw.priority_max.as_ref(), "priority_max", checked_priority)?,
        share_max: share("share_max", raw.share_max.as_ref())?,
        clients_max: count("clients_max", raw.clients_max.as_ref())?,
        queues_max: count("queues_max", raw.queues_max.as_ref())?,
        sees: raw.sees,
        unreported: raw.unreported,
        ..Tenant::default()
    };
    check_start(text, raw, &tenant)?;
    Ok(tenant)
}

/// Checks that processes of a tenant may have the priority and the share that they start with.
fn check_start(text: &str, raw: &RawTenant, tenant: &Tenant) -> Result<(), Wrong> {
    let is_above = tenant.priority.zip(tenant.priority_max).is_some_and(|(is, max)| is > max);
    let class = raw.class.as_ref().map(|class| Key::of("class", class));
    let priority = raw.priority.as_ref().map(|priority| Key::of("priority", priority));
    let max = raw.priority_max.as_ref().map(|max| Key::of("priority_max", max));
    if let Some((is, max)) = class.or(priority).zip(max).filter(|_| is_above) {
        return Err(is.is_above(&max, &tenant.name, text));
    }
    let is_above = tenant.share.zip(tenant.share_max).is_some_and(|(is, max)| is > max);
    let share = raw.share.as_ref().map(|share| Key::of("share", share));
    let max = raw.share_max.as_ref().map(|max| Key::of("share_max", max));
    let pair = share.zip(max).filter(|_| is_above);
    pair.map_or(Ok(()), |(is, max)| Err(is.is_above(&max, &tenant.name, text)))
}

/// A key that contradicts another.
struct Key {
    name: &'static str,
    value: Range<usize>,
}

impl Key {
    fn of<T>(name: &'static str, value: &Spanned<T>) -> Self {
        Self { name, value: value.span() }
    }

    /// `KEY = VALUE (line N)`, with the value as it is written.
    fn said(&self, text: &str) -> String {
        let value = text.get(self.value.clone()).unwrap_or_default();
        format!("{} = {value} (line {})", self.name, line_of(text, self.value.start))
    }

    fn is_the_same_as(&self, other: &Self, text: &str) -> Wrong {
        let (this, that) = (self.said(text), other.said(text));
        let what = format!("{this} and {that} are the same thing; take one of them out");
        wrong(&other.value, what)
    }

    fn is_above(&self, max: &Self, tenant: &str, text: &str) -> Wrong {
        let (is, most) = (self.said(text), max.said(text));
        let what = format!(
            "tenant `{tenant}`: its processes start with {is}, which is above {most}; lower {}, or \
             raise {}",
            self.name, max.name
        );
        wrong(&self.value, what)
    }
}

/// A priority that runs.
fn checked_priority(PriorityKey(value): PriorityKey) -> Result<Priority, OutOfRange> {
    Priority::new(value.max(-256)).ok().filter(|p| *p >= Priority::MIN).ok_or(OutOfRange {
        hint: "priority",
        min: -255,
        max: 255,
        value: i64::from(value),
    })
}

fn priority(text: &str, raw: &RawTenant) -> Result<Option<Priority>, Wrong> {
    match (&raw.class, &raw.priority) {
        (Some(class), Some(priority)) => {
            let priority = Key::of("priority", priority);
            Err(Key::of("class", class).is_the_same_as(&priority, text))
        }
        (Some(class), None) => ranged(Some(class), "class", |class| Priority::new(class as i32)),
        (None, priority) => ranged(priority.as_ref(), "priority", checked_priority),
    }
}

fn cgroup(raw: &Spanned<String>) -> Result<Pattern, Wrong> {
    let text = raw.get_ref();
    if !text.starts_with('/') {
        let what = "cgroup: a path from the root of the hierarchy, as in /proc/PID/cgroup, begins \
                    with /";
        return Err(wrong(&raw.span(), what));
    }
    Pattern::new(text).map_err(|error| wrong(&raw.span(), format!("cgroup: {error}")))
}
