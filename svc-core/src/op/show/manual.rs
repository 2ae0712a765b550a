//! The manual pages that are generated from code.
//!
//! svc-operations(7) is generated from the operation table, and svc-errors(7) from the error codes. The pages
//! are committed under `man`, and a test compares each committed page with a newly generated one.
//! [`crate::config`] generates the page of the configuration variables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::capability::{Capability, CapabilitySet};
use crate::config::escape_roff;
use crate::error::{Code, PROBLEM_BASE};
use crate::op::declare::http::Success;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;
use crate::op::show::mcp::{self, ErrorForm};

/// Returns the manual page svc-operations(7), in roff.
pub fn operations_page(table: &Table) -> String {
    let mut page = OPERATIONS_HEAD.to_owned();
    for (area, operations) in operations_by_area(table) {
        let _ = writeln!(page, ".SS {}", escape_roff(area));
        operations.into_iter().for_each(|operation| write_operation(&mut page, operation));
    }
    page.push_str(CAPABILITIES_HEAD);
    Capability::ALL
        .iter()
        .filter(needed_capability_filter(table))
        .for_each(|capability| write_capability(&mut page, *capability));
    page.push_str(EVENTS_HEAD);
    for event in table.events() {
        let _ = write!(
            page,
            ".TP\n.B {}\n{}\n",
            escape_roff(event.kind),
            paragraph(&schema_description(&event.schema()))
        );
    }
    page.push_str(OPERATIONS_TAIL);
    page
}

/// Returns the manual page svc-errors(7), in roff.
pub fn errors_page() -> String {
    let mut page = ERRORS_HEAD.replace("PROBLEM_BASE", PROBLEM_BASE);
    for code in Code::ALL {
        let told = match mcp::error_form(*code) {
            ErrorForm::Error(number) => {
                format!("\n.br\nJSON\\-RPC error {}.", escape_roff(&number.to_string()))
            }
            ErrorForm::Result => String::new(),
        };
        let name = escape_roff(code.name());
        let status = code.status();
        let title = escape_roff(code.title());
        let _ = write!(page, ".TP\n\\fB{name}\\fP, {status}, {title}\n{}{told}\n", paragraph(code.manual()));
    }
    page.push_str(ERRORS_TAIL);
    page
}

/// Returns the operations of each area of the service, sorted by name.
fn operations_by_area(table: &Table) -> BTreeMap<&'static str, Vec<&Operation>> {
    let mut areas: BTreeMap<&'static str, Vec<&Operation>> = BTreeMap::new();
    table.operations().for_each(|operation| areas.entry(operation.docs().area).or_default().push(operation));
    areas
}

/// Writes the entry of an operation to `page`.
fn write_operation(page: &mut String, operation: &Operation) {
    let _ = write!(page, ".TP\n.B {}\n", escape_roff(operation.name()));
    for path in operation.http().paths() {
        let _ = writeln!(page, "{} {}", operation.http().method.name(), escape_roff(path));
        let _ = writeln!(page, ".br");
    }
    let mut notes = vec![
        format!("needs {}", operation.access().needs.expression()),
        operation.effect().name().to_owned(),
    ];
    if operation.access().personal {
        notes.push("personal".to_owned());
    }
    if operation.http().success == Success::Created {
        notes.push("returns 201".to_owned());
    }
    if operation.http().rest_only {
        notes.push("no tool".to_owned());
    }
    let _ = writeln!(
        page,
        "{}\n.br\n{}",
        escape_roff(&notes.join("; ")),
        paragraph(&schema_description(&operation.input_schema()))
    );
}

/// Returns a filter for the capabilities that at least one operation of the table needs.
///
/// The page omits capabilities that no operation needs yet.
fn needed_capability_filter(table: &Table) -> impl Fn(&&Capability) -> bool {
    let needs: BTreeSet<String> =
        table.operations().map(|operation| operation.access().needs.expression()).collect();
    let named: BTreeSet<String> = needs.iter().flat_map(|any| any.split('|')).map(str::to_owned).collect();
    move |capability| named.contains(capability.name())
}

/// Writes the entry of a capability to `page`, with the named sets that contain the capability.
fn write_capability(page: &mut String, capability: Capability) {
    let sets = CapabilitySet::ALL.iter().filter(|set| set.capabilities().has(capability));
    let names = sets.filter_map(|set| serde_json::to_value(set).ok()?.as_str().map(str::to_owned));
    let names: Vec<String> = names.collect();
    let within = if names.is_empty() { "no named set".to_owned() } else { names.join(", ") };
    let _ = write!(
        page,
        ".TP\n.B {}\n{}\n.br\nIn {}.\n",
        escape_roff(capability.name()),
        paragraph(capability.grants()),
        escape_roff(&within)
    );
}

/// Returns the description in a JSON schema, or an empty text if there is none.
fn schema_description(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Formats text as one line of roff, with code between backticks in bold.
fn paragraph(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = words.split('`').enumerate().map(|(place, part)| match place % 2 {
        0 => escape_roff(part),
        _ => format!("\\fB{}\\fP", escape_roff(part)),
    });
    parts.collect()
}

const OPERATIONS_HEAD: &str = ".TH SVC-OPERATIONS 7 \"\" svc \"Agent Collaboration Service\"
.SH NAME
svc-operations \\- the operations of the Agent Collaboration Service
.SH DESCRIPTION
Each operation is available as a REST route and as an MCP tool of the same name, \
with the same input and output.
The input of an operation is one flat object. Over REST, the fields of this object are in the path, \
the query and the JSON
body of the request. A request may contain each field only once. The server rejects an unknown field. \
Braces enclose the
variables of a path.
.PP
The line below the route lists the properties of the operation. The word
.I needs
is followed by the capability that the token must carry. The capability
.I any
means any valid token. If several capabilities are joined by |, one of them is enough. Operations with the
property
.IR read \" or \" wait
change nothing. Repeating a call of an
.I idempotent
operation changes nothing more. A
.I destructive
operation ends or removes something. A
.I personal
operation concerns only the caller's own data, and delegates cannot call such an operation. The words
.I no tool
mark an operation that is available only over REST. A successful call returns the status 200, unless \
the line lists another status.
.PP
.I GET /openapi.json
describes every field.
.SH OPERATIONS
";

const CAPABILITIES_HEAD: &str = ".SH CAPABILITIES
A token carries some of these capabilities. A named set is a shorthand for the creation of tokens. \
A token keeps the
capabilities that the set contained when the token was created.
";

const EVENTS_HEAD: &str = r".SH EVENTS
Each change adds one or more events to the log of its workspace. The type of an event is
.IR svc.event.KIND/1 .
Later versions may add fields and kinds. Ignore fields and kinds that you do not know.
";

const OPERATIONS_TAIL: &str = r".SH SEE ALSO
.BR svc (1),
.BR svc\-http (8),
.BR svc\-mcp\-stdio (1),
.BR svc\-env (7),
.BR svc\-errors (7),
.BR svc\-security (7)
";

const ERRORS_HEAD: &str = ".TH SVC-ERRORS 7 \"\" svc \"Agent Collaboration Service\"
.SH NAME
svc-errors \\- the errors of the Agent Collaboration Service
.SH DESCRIPTION
Every error is a problem object as defined by RFC 9457. A problem has the members
.IR type ,
.IR title ,
.I status
and
.IR detail ,
and some types of problems have further members. The type is the path
.I PROBLEM_BASE
followed by one of the codes below. The codes are stable, so programs should compare codes. \
The detail describes to a person
what was wrong with the request. The text of the detail may change.
.PP
Over HTTP, the problem is the response body, with the media type application/problem+json. \
Over MCP, the problem is the data
of a JSON\\-RPC error if the list below contains an error number for the code. For all other codes, \
the response over MCP is a tool result with
.I isError
set. The text of such a result describes what was rejected, why, and what to do next. The member
.I svc/problem
in the
.I _meta
of the result contains the problem. The result has no structured content.
.PP
Each entry of the list has the code, the HTTP status and the title.
.SH CODES
";

const ERRORS_TAIL: &str = r".SH SEE ALSO
.BR svc (1),
.BR svc\-http (8),
.BR svc\-mcp\-stdio (1),
.BR svc\-env (7),
.BR svc\-operations (7),
.BR svc\-security (7)
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Compares a generated page with the committed page.
    ///
    /// `UPDATE_GOLDEN=1 cargo test -p svc-core manual` regenerates the committed pages.
    fn check(name: &str, wanted: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../man").join(name);
        if std::env::var("UPDATE_GOLDEN").is_ok_and(|update| update == "1") {
            std::fs::write(&path, wanted).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == wanted, "man/{name} is out of date; UPDATE_GOLDEN=1 regenerates it");
    }

    #[test]
    fn the_manual_has_every_operation_and_event() {
        check(
            "svc-operations.7",
            &operations_page(&Table::build(crate::host::features::features()).unwrap()),
        );
    }

    #[test]
    fn the_manual_has_every_error() {
        check("svc-errors.7", &errors_page());
    }

    #[test]
    fn code_is_bold_and_no_text_becomes_a_roff_request() {
        assert_eq!(paragraph("Answers\n `{}`, as\nsaid."), "Answers \\fB{}\\fP, as said.");
        assert_eq!(paragraph(".TH it's a-b"), "\\&.TH it\\(aqs a\\-b");
    }
}
