//! Changed exports: each is refused, with the reason.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc_core::api::ExportWorkspace;
use svc_core::signed_note::NoteSigner;
use svc_core::{Code, Engine, Error, verify_export};
use svc_tests::database::engines;
use svc_tests::{on_both_engines, text};

use crate::portability::exports::{export, keys, lived_in};
use crate::portability::origin::Origin;

/// Returns the reason why a file is refused.
fn refused(file: &str) -> (Code, String) {
    let error: Error = verify_export(file.as_bytes(), &keys()).expect_err("it is refused");
    let problem = serde_json::to_value(error.problem()).unwrap();
    (error.code(), text(&problem["reason"]))
}

/// Returns the file of a small workspace, as text.
fn small(engine: Engine) -> String {
    let origin = Origin::new(engine, 13);
    let input = ExportWorkspace::new().workspace_id(origin.workspace);
    let content = origin.world.service.call_as_instance(origin.workspace, &input).unwrap();
    String::from_utf8(content.read().unwrap()).unwrap()
}

/// A file, line by line, to be changed.
struct Lines(Vec<String>);

impl Lines {
    fn of(file: &str) -> Self {
        Self(file.lines().map(str::to_owned).collect())
    }

    /// Returns the lines that are records, with their tables.
    fn records(&self) -> Vec<(usize, String)> {
        let table = |line: &str| -> Option<String> {
            let record: Value = serde_json::from_str(line.trim_end_matches(',')).ok()?;
            record["record"].as_str().map(str::to_owned)
        };
        let lines = self.0.iter().enumerate().filter(|(_, line)| line.starts_with('{'));
        lines.filter_map(|(number, line)| Some((number, table(line)?))).collect()
    }

    /// Returns the reason why the file is refused after a change.
    fn refused(&self, change: impl FnOnce(&mut Vec<String>)) -> String {
        let mut changed = self.0.clone();
        change(&mut changed);
        let (code, reason) = refused(&changed.join("\n"));
        assert_eq!(code, Code::ExportInvalid);
        reason
    }
}

#[test]
fn a_line_that_is_missing_or_elsewhere_is_noticed() {
    for engine in engines() {
        let lines = Lines::of(&small(engine));
        for count in 0..lines.0.len() {
            assert_eq!(lines.refused(|lines| lines.truncate(count)), "truncated", "cut to {count} lines");
        }
        let records = lines.records();
        let last = records.len() - 1;
        for (place, (number, table)) in records.iter().enumerate() {
            let reason = lines.refused(|lines| {
                lines.remove(*number);
                if place == last {
                    lines[number - 1].pop().unwrap();
                }
            });
            let is_first = table == "events" && (place == 0 || records[place - 1].1 != "events");
            let wanted = match table.as_str() {
                "events" if is_first => "chain",
                "events" if place < last => "order",
                _ => "hash",
            };
            assert!(reason == wanted || place == 0, "{table} without line {number}: {reason}");
            if place + 1 < last {
                let reason = lines.refused(|lines| lines.swap(*number, number + 1));
                let wanted = if is_first { "chain" } else { "order" };
                assert!(reason == wanted || place == 0, "{table}, line {number} after the next: {reason}");
                let reason = lines.refused(|lines| lines.insert(*number, lines[*number].clone()));
                assert!(reason == "order" || place == 0, "{table}, line {number} twice: {reason}");
            }
        }
    }
}

#[test]
fn a_field_that_is_another_is_noticed() {
    for engine in engines() {
        let lines = Lines::of(&small(engine));
        let records = lines.records();
        let mut tables = BTreeSet::new();
        for (number, table) in records.iter().filter(|(_, table)| tables.insert(table.clone())) {
            let record: Value = serde_json::from_str(lines.0[*number].trim_end_matches(',')).unwrap();
            let comma = if lines.0[*number].ends_with(',') { "," } else { "" };
            let with = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
                let mut changed = record.clone();
                change(changed.as_object_mut().unwrap());
                lines.refused(|lines| lines[*number] = format!("{changed}{comma}"))
            };
            assert_eq!(with(&|row| drop(row.insert("age".into(), json!(7)))), "unknown-field", "{table}");
            assert_eq!(
                with(&|row| drop(row.insert("api_key".into(), json!("x")))),
                "credential-field",
                "{table}"
            );
            for (name, value) in record.as_object().unwrap() {
                let changed = match value {
                    Value::String(text) => json!(format!("{text}x")),
                    Value::Number(number) => json!(number.as_i64().unwrap() + 1),
                    Value::Bool(truth) => json!(!truth),
                    Value::Null => json!("x"),
                    other => panic!("{table}.{name} is {other}"),
                };
                let reason = with(&|row| drop(row.insert(name.clone(), changed.clone())));
                let wanted: &[&str] = match (table.as_str(), name.as_str()) {
                    (_, "record") => &["unknown-field"],
                    ("events", _) => &["chain"],
                    // A value that does not belong to its column, or is out of order, is noticed first.
                    _ => &["hash", "unknown-field", "order", "not-an-export"],
                };
                assert!(wanted.contains(&reason.as_str()), "{table}.{name} as {changed}: {reason}");
            }
        }
        assert!(tables.len() > 10, "{tables:?}");
    }
}

/// Returns the reasons that may be found if one bit of a line is changed.
fn reasons_in(line: &str) -> &'static [&'static str] {
    let begins = |with: &str| line.starts_with(with);
    match () {
        () if begins("\"signature\"") => {
            &["signature", "unknown-key", "hash", "not-an-export", "unknown-field"]
        }
        () if begins("\"manifest\"") => &["hash", "not-an-export", "unknown-field", "truncated"],
        () if begins("\"header\"") => {
            &["hash", "not-an-export", "unknown-field", "truncated", "chain", "order"]
        }
        // No event follows the last one that could link to it.
        () if line.contains("\"record\":\"events\"") => {
            &["chain", "order", "hash", "not-an-export", "unknown-field", "truncated"]
        }
        // A changed name may be that of a credential, which no column has.
        () => &["hash", "not-an-export", "unknown-field", "credential-field", "truncated", "order"],
    }
}

#[test]
fn a_bit_that_is_another_is_noticed() {
    for engine in engines() {
        let file = small(engine);
        let mut found = BTreeSet::new();
        let mut line_begins = 0;
        for line in file.split_inclusive('\n') {
            // Some bits of each line, and all in the short ones.
            let step = (line.len() / 5).max(1);
            for place in (line_begins..line_begins + line.len()).step_by(step) {
                let mut bytes = file.clone().into_bytes();
                bytes[place] ^= 1 << (place % 7);
                let error =
                    verify_export(bytes.as_slice(), &keys()).expect_err(&format!("the bit at {place}"));
                let reason = text(&serde_json::to_value(error.problem()).unwrap()["reason"]);
                assert!(
                    reasons_in(line).contains(&reason.as_str()),
                    "the bit at {place} of {line}: {reason}"
                );
                found.insert(reason);
            }
            line_begins += line.len();
        }
        assert!(found.len() > 4, "{found:?}");
    }
}

#[test]
fn a_changed_file_is_refused_with_the_reason() {
    on_both_engines(|world| {
        lived_in(world);
        let file = export(world, "all");
        verify_export(file.as_bytes(), &keys()).unwrap();
        let replaced = |from: &str, to: &str| {
            assert!(file.contains(from), "{from}");
            refused(&file.replacen(from, to, 1)).1
        };
        for (from, to, reason) in [
            ("svc.workspace.export/1", "svc.workspace.export/2", "not-an-export"),
            ("\"record\":\"workspaces\"", "\"record\":\"workspace\"", "unknown-field"),
            ("\"record\":\"members\"", "\"record\":\"tokens\"", "credential-field"),
            ("\"header\":{", "\"header\":{\"secret\":1,", "credential-field"),
            ("\"header\":{", "\"header\":{\"age\":1,", "unknown-field"),
            ("\"manifest\":{", "\"manifest\":{\"api_key\":1,", "credential-field"),
            ("\"sections\":[{", "\"sections\":[{\"wrapped\":1,", "credential-field"),
            ("\"private\":false", "\"private\":true", "hash"),
            ("\"private\":false", "\"private\":0", "unknown-field"),
            ("\\\"$chain\\\":{\\\"at\\\":1", "\\\"$chain\\\":{\\\"at\\\":2", "chain"),
            ("\"words\":\"all\"", "\"words\":\"none\"", "hash"),
            ("\"words\":\"all\"", "\"words\":{\"all\":null}", "unknown-field"),
            ("\\n\\n\u{2014} svc/", "\\n\\n- svc/", "signature"),
        ] {
            assert_eq!(replaced(from, to), reason, "{to} for {from}");
        }
        // The signature covers the members of the header, whatever their formatting in the file.
        let header = &file[file.find("\"header\":").unwrap()..file.find(",\n\"records\"").unwrap()];
        let members: Value = serde_json::from_str(header.split_once(':').unwrap().1).unwrap();
        let values: Vec<Value> =
            ["schema", "exported_at", "workspace_id", "floor", "pruned_at", "words_floor"]
                .iter()
                .chain(&["head", "audit_seq", "words"])
                .map(|name| members[*name].clone())
                .collect();
        assert_eq!(replaced(header, &format!("\"header\":{}", json!(values))), "unknown-field");
        assert_eq!(refused("{}").1, "not-an-export");
        assert_eq!(refused("[]").1, "not-an-export");
        assert_eq!(refused(&format!("{file} more")).1, "not-an-export");
        let other = [NoteSigner::new(&[1; 32]).public()];
        let error = verify_export(file.as_bytes(), &other).unwrap_err();
        assert_eq!(serde_json::to_value(error.problem()).unwrap()["reason"], "unknown-key");
    });
}
