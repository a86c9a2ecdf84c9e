//! Communicators: reads `comms.NAME`, the steps that create communicators, their names in other keys, and `config`.
use super::case::{CommCreation, CommDef, ConfigValue, Spanned};
use super::defaults::Defaults;
use super::diagnostic::Diagnostic;
use super::keys::{self, KeyPlace, ValueType};
use super::members;
use super::names::bad_name;
use super::reader::{AllowedNames, NumberKind, PointReader, RankScope};
use super::tree::{TomlKind, TomlTable, TomlValue};
use super::variables;
use crate::ops::CommOp;
use crate::suggest::nearest;
use nccl_sys::{ConfigAccess, ConfigField, ncclConfig_t};

/// Fields of a communicator's configuration with their values.
pub(crate) type ConfigFields = Vec<(Spanned<String>, Spanned<ConfigValue>)>;

/// Reads all of `comms`, in file order.
pub(crate) fn before_first_step(reader: &mut PointReader<'_>, val: &TomlValue) -> Vec<CommDef> {
    let TomlKind::Table(table) = &val.kind else {
        reader.report_wrong_type("comms", ValueType::Table, val);
        return Vec::new();
    };
    let mut out: Vec<CommDef> = Vec::with_capacity(table.entries.len());
    for e in &table.entries {
        let TomlKind::Table(t) = &e.value.kind else {
            let d = reader.misplaced_key(e, val.span);
            match d {
                Some(d) => reader.report(d),
                None => reader.report_wrong_type(&format!("comms.{}", e.key), ValueType::Table, &e.value),
            }
            continue;
        };
        let name = Spanned { span: e.key_span, value: e.key.to_string() };
        check_name(reader, &name);
        let allowed: Vec<_> = keys::keys_in(KeyPlace::Comm).collect();
        reader.check_keys(t, e.value.span, &allowed, "a communicator");
        let how = match (t.get("groups"), t.get("color")) {
            (Some(g), Some(c)) => {
                let d = Diagnostic::new(c.key_span, "`groups` and `color` cannot be used together");
                reader.report(d.related(g.key_span, "the other one"));
                None
            }
            (Some(g), None) => {
                for k in ["comm", "key"] {
                    if let Some(other) = t.get(k) {
                        reader.report(Diagnostic::new(
                            other.key_span,
                            format!("`{k}` belongs to `color`, not to `groups`"),
                        ));
                    }
                }
                reader.groups(&g.value).map(CommCreation::Groups)
            }
            _ => split(reader, t, e.value.span, &name.value, None, AllowedNames::PER_RANK),
        };
        if let Some(CommCreation::Split { comm, .. }) = &how {
            let earlier = comm.value == "world" || out.iter().any(|c| c.name.value == comm.value);
            if !earlier && reader.known.comms.contains_key(&comm.value) {
                let d = Diagnostic::new(comm.span, format!("`{}` is made later than `{}`", comm.value, name.value));
                reader.report(d.help("communicators are made in file order: move it up"));
            }
        }
        let config = t.get("config").map(|c| config(reader, &c.value)).unwrap_or_default();
        let ids = number_of_ids(reader, t);
        out.extend(how.map(|how| CommDef { name, creation: how, config, ids }));
    }
    out
}

fn check_name(reader: &mut PointReader<'_>, name: &Spanned<String>) {
    if name.value == "world" {
        reader
            .report(Diagnostic::new(name.span, "the communicator `world` exists already").help("choose another name"));
    } else if let Some((message, help)) = bad_name(&name.value) {
        reader.report(Diagnostic::new(name.span, message).help(help));
    }
}

fn split(
    reader: &mut PointReader<'_>,
    t: &TomlTable,
    span: super::Span,
    name: &str,
    parent: Option<Spanned<String>>,
    names: AllowedNames,
) -> Option<CommCreation> {
    let Some(color) = t.get("color") else {
        let d = Diagnostic::new(span, format!("`{name}` has neither `groups` nor `color`"));
        reader.report(d.help("write `groups = [[0, 1], [2, 3]]` or `color = \"rank % 2\"`"));
        return None;
    };
    let color = reader.number_by_rank("color", &color.value, names, NumberKind::Whole, RankScope::Communicator);
    let key = t
        .get("key")
        .and_then(|e| reader.number_by_rank("key", &e.value, names, NumberKind::Whole, RankScope::Communicator));
    let comm = match (parent, t.get("comm")) {
        (Some(p), _) => p,
        (None, Some(e)) => communicator_name(reader, &e.value)?,
        (None, None) => Spanned { span, value: "world".to_owned() },
    };
    Some(CommCreation::Split { comm, color: color?, key })
}

/// Reads the communicator that a step creates.
pub(crate) fn new_communicator(
    reader: &mut PointReader<'_>,
    t: &TomlTable,
    word: &str,
    kind: CommOp,
    defaults: &Defaults<'_>,
) -> Option<CommDef> {
    let span = t.get("op").map_or_else(Default::default, |e| e.value.span);
    let Some(name) = t.get("new") else {
        let d = Diagnostic::new(span, format!("`{word}` needs `new`"));
        reader.report(d.help("`new = \"NAME\"` is the new communicator's name"));
        return None;
    };
    let name = reader.text("new", &name.value)?;
    check_name(reader, &name);
    let how = if kind == CommOp::Init {
        let Some(e) = t.get("groups") else {
            let d = Diagnostic::new(span, "`init` needs `groups`");
            reader.report(d.help("a communicator for each list of world ranks: `groups = [[0, 1], [2, 3]]`"));
            return None;
        };
        CommCreation::Groups(reader.groups(&e.value)?)
    } else {
        let parent = defaults.own_or_find(reader, t.get("comm"), "comm");
        let parent = parent.and_then(|e| communicator_name(reader, &e.value));
        let parent = parent.unwrap_or(Spanned { span, value: "world".to_owned() });
        match kind {
            CommOp::Shrink => members::shrink(reader, t, span, parent)?,
            CommOp::Grow => members::grow(reader, t, span, parent)?,
            _ => split(reader, t, span, &name.value, Some(parent), AllowedNames::STEP)?,
        }
    };
    // Inner values replace outer ones field by field; the file's values belong to the case and are not repeated here.
    let mut all = ConfigFields::new();
    let outer = defaults.all_values("config").into_iter().skip(usize::from(defaults.at_top("config")));
    for e in outer.chain(t.get("config")) {
        Defaults::mark_used(reader, e.key_span);
        for (k, v) in config(reader, &e.value) {
            all.retain(|(old, _)| old.value != k.value);
            all.push((k, v));
        }
    }
    Some(CommDef { name, creation: how, config: all, ids: number_of_ids(reader, t) })
}

/// Reads `ids`, which applies to communicators created with ids.
fn number_of_ids(reader: &mut PointReader<'_>, t: &TomlTable) -> Option<Spanned<i128>> {
    let entry = t.get("ids")?;
    if t.get("groups").is_none() {
        reader.report(Diagnostic::new(entry.key_span, "`ids` belongs to `groups`, which makes communicators by ids"));
        return None;
    }
    let value = reader.int("ids", &entry.value, 0..=i64::MAX.into())?;
    Some(Spanned { span: entry.value.span, value })
}

/// Reads the name of a communicator that the program creates.
pub(crate) fn communicator_name(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<Spanned<String>> {
    let name = reader.text("comm", val)?;
    if name.value == "world" {
        return Some(name);
    }
    if reader.known.comms.contains_key(&name.value) {
        reader.used.comms.insert(name.value.clone());
        return Some(name);
    }
    if !reader.is_first_unknown("communicator", &name.value) {
        return None;
    }
    let place = reader.span_in_text(name.span, &name.value, 0, name.value.len());
    let d = Diagnostic::new(place, format!("unknown communicator `{}`", name.value.escape_debug()));
    let known: Vec<&str> = reader.known.comms.keys().map(String::as_str).chain(["world"]).collect();
    let help = match nearest(&name.value, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.join(", ")),
    };
    reader.report(d.help(help));
    None
}

/// Reads `config`, whose keys are NCCL's field names.
pub(crate) fn config(reader: &mut PointReader<'_>, val: &TomlValue) -> ConfigFields {
    let TomlKind::Table(table) = &val.kind else {
        reader.report_wrong_type("config", ValueType::Table, val);
        return ConfigFields::new();
    };
    let mut out = ConfigFields::new();
    for e in &table.entries {
        let Some(field) = ConfigField::find(&e.key) else {
            let allowed: Vec<_> = ncclConfig_t::FIELDS.iter().map(|field| field.name).collect();
            let one = TomlTable { entries: vec![e.clone()] };
            reader.check_keys(&one, val.span, &allowed, "`config`");
            continue;
        };
        let value = match (&e.value.kind, field.access) {
            (TomlKind::Str(s), ConfigAccess::Text(_)) => {
                if let Some(d) = variables::refuse_value(&e.key, s, e.value.span, reader.allow_env) {
                    reader.report(d);
                    continue;
                }
                ConfigValue::Text(s.to_string())
            }
            (TomlKind::Bool(b), ConfigAccess::Int(_)) => ConfigValue::Int((*b).into()),
            (TomlKind::Int(v), ConfigAccess::Int(_)) => match i32::try_from(*v) {
                Ok(v) => ConfigValue::Int(v.into()),
                Err(_) => {
                    reader.report(Diagnostic::new(e.value.span, format!("`{}` must fit 32 bits", e.key)));
                    continue;
                }
            },
            _ => {
                let ty = match field.access {
                    ConfigAccess::Int(_) => ValueType::Int,
                    ConfigAccess::Text(_) => ValueType::Text,
                };
                reader.report_wrong_type(&e.key, ty, &e.value);
                continue;
            }
        };
        out.push((Spanned { span: e.key_span, value: e.key.to_string() }, Spanned { span: e.value.span, value }));
    }
    out
}
