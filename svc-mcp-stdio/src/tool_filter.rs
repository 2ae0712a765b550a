//! Selects the tools that a client sees: all tools, the tools of a profile, or the tools that the client has
//! chosen.
//!
//! The client cannot call a hidden tool. The options have the same names as in other MCP servers: toolsets
//! (areas of the service and profiles), single tools, and read-only.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use svc_core::op::{Operation, Table};
use svc_core::text::{echo, nearest};

use crate::profiles::Profile;

/// Name of the toolset that contains all tools.
const ALL: &str = "all";

/// Instructions for an agent that sees all tools.
const INSTRUCTIONS: &str = "\
This server coordinates agents. Work is a thread: a task in a channel with messages, a state and a result.\n\
1. `whoami` returns your identity; `list_channels` and `list_threads` list the existing work.\n\
2. `claim_next_thread` claims the next task that you can do and returns it with a lease; `acknowledge` also \
confirms that you have started, and `include_context` also returns its brief. If no thread is ready, \
`wait_for_ready` waits for one.\n\
3. `get_thread_context` returns the brief of any thread. Report your progress with `post_message`.\n\
4. While you work, call `renew_claim` before the lease expires. After that, others can claim the task, and \
your lease id is rejected.\n\
5. `set_thread_result` stores the result, and with an `action` also changes the thread's state. If you \
cannot finish, call `release_claim`.\n\
An error says what was rejected, with a stable code in brackets, why, and what to do.";

/// Instructions for an agent that sees only some tools. The text mentions no tool, since any tool may be
/// hidden.
pub(crate) const PARTIAL_INSTRUCTIONS: &str = "\
This server coordinates agents. Work is a thread: a task in a channel with messages, a state and a result. \
You see only some of its tools: a text may mention a tool that you do not see and cannot call.\n\
An error says what was rejected, with a stable code in brackets, why, and what to do.";

/// Selection of the tools that a client sees and may call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToolFilter {
    profile: Option<Profile>,
    /// Names of the chosen tools; `None` for all tools.
    chosen: Option<Arc<BTreeSet<&'static str>>>,
    reads_only: bool,
    /// Whether the filter depends only on the path of an HTTP request.
    depends_only_on_path: bool,
}

/// Choice of tools by a client, as text that is not parsed yet.
#[derive(Args, Clone, Debug, Default)]
pub struct ToolChoice {
    /// Show only the tools of these toolsets, separated by commas: areas, worker, reviewer, all
    #[arg(long, value_name = "NAMES")]
    pub toolsets: Option<String>,
    /// Show only these tools, separated by commas, and the tools of the toolsets
    #[arg(long, value_name = "NAMES")]
    pub tools: Option<String>,
    /// Show only tools that change nothing
    #[arg(long = "read-only")]
    pub reads_only: bool,
}

impl ToolFilter {
    /// Returns the filter that shows the tools of a profile.
    pub fn for_profile(profile: Profile) -> Self {
        Self { profile: Some(profile), depends_only_on_path: true, ..Self::default() }
    }

    /// Returns the filter for a client's choice, or an error message about an invalid name.
    ///
    /// An empty list is treated as no choice, since an unset variable in a configuration results in an empty
    /// list.
    pub fn chosen(table: &Table, choice: &ToolChoice) -> Result<Self, String> {
        let toolsets: Vec<&str> = split_names(choice.toolsets.as_deref()).collect();
        let tools: Vec<&str> = split_names(choice.tools.as_deref()).collect();
        if let (&[only], true) = (toolsets.as_slice(), tools.is_empty())
            && let Some(profile) = Profile::by_name(only)
        {
            return Ok(Self {
                reads_only: choice.reads_only,
                depends_only_on_path: false,
                ..Self::for_profile(profile)
            });
        }
        let mut chosen = BTreeSet::new();
        let mut has_all = toolsets.is_empty() && tools.is_empty();
        for &word in &toolsets {
            has_all |= word == ALL;
            chosen.extend(tools_of_toolset(table, word)?);
        }
        for &word in &tools {
            chosen.insert(find_tool(table, word)?);
        }
        Ok(Self {
            profile: None,
            depends_only_on_path: toolsets.is_empty() && tools.is_empty() && !choice.reads_only,
            chosen: (!has_all).then(|| Arc::new(chosen)),
            reads_only: choice.reads_only,
        })
    }

    /// Returns whether the filter shows the tool of an operation.
    pub fn shows(&self, operation: &Operation) -> bool {
        let name = operation.name();
        self.profile.is_none_or(|profile| profile.tools().contains(&name))
            && self.chosen.as_ref().is_none_or(|chosen| chosen.contains(name))
            && (!self.reads_only || operation.effect().is_read_only())
    }

    /// Returns the filter of a profile, restricted by a client's choice, or an error message about that
    /// choice.
    pub fn for_profile_and_choice(profile: Profile, choice: &ToolChoice) -> Result<Self, String> {
        if split_names(choice.toolsets.as_deref())
            .chain(split_names(choice.tools.as_deref()))
            .next()
            .is_some()
        {
            return Err(format!(
                "the tools of the profile {} are fixed; toolsets and tools are chosen at /mcp",
                profile.name()
            ));
        }
        Ok(Self {
            reads_only: choice.reads_only,
            depends_only_on_path: !choice.reads_only,
            ..Self::for_profile(profile)
        })
    }

    /// Returns the profile of the filter, or `None` if the filter is not for a profile.
    pub fn profile(&self) -> Option<Profile> {
        self.profile
    }

    /// Returns whether the filter depends only on the path of a request, so that shared caches may keep the
    /// list of tools.
    pub fn depends_only_on_path(&self) -> bool {
        self.depends_only_on_path
    }

    /// Returns whether the filter shows all tools that a text mentions in backticks.
    pub fn shows_tools_in(&self, text: &str, table: &Table) -> bool {
        let mut named = text.split('`').skip(1).step_by(2).filter_map(|word| table.operation(word));
        named.all(|operation| self.shows(operation))
    }

    /// Returns the instructions for an agent that sees the tools of the filter.
    pub fn instructions(&self) -> &'static str {
        match (self.profile, &self.chosen, self.reads_only) {
            (Some(profile), None, false) => profile.instructions(),
            (None, None, false) => INSTRUCTIONS,
            _ => PARTIAL_INSTRUCTIONS,
        }
    }
}

/// Returns the names of all toolsets.
pub fn toolsets(table: &Table) -> Vec<&'static str> {
    let areas = listed_tools(table).map(|operation| operation.docs().area);
    let names: BTreeSet<&str> = areas.chain(Profile::ALL.map(Profile::name)).chain([ALL]).collect();
    names.into_iter().collect()
}

fn listed_tools(table: &Table) -> impl Iterator<Item = &Operation> {
    table.operations().filter(|operation| !operation.http().rest_only)
}

fn split_names(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn tools_of_toolset(table: &Table, word: &str) -> Result<Vec<&'static str>, String> {
    if let Some(profile) = Profile::by_name(word) {
        return Ok(profile.tools().to_vec());
    }
    if word == ALL {
        return Ok(Vec::new());
    }
    let names: Vec<_> =
        listed_tools(table).filter(|operation| operation.docs().area == word).map(Operation::name).collect();
    if names.is_empty() { Err(unknown_name_message("toolset", word, &toolsets(table))) } else { Ok(names) }
}

fn find_tool(table: &Table, word: &str) -> Result<&'static str, String> {
    let names: Vec<&str> = listed_tools(table).map(Operation::name).collect();
    match listed_tools(table).find(|operation| operation.name() == word) {
        Some(operation) => Ok(operation.name()),
        None => Err(unknown_name_message("tool", word, &names)),
    }
}

fn unknown_name_message(kind: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("there is no {kind} {}; did you mean {near}?", echo(word)),
        None if known.len() > 60 => format!("there is no {kind} {}; see tools/list", echo(word)),
        None => format!("there is no {kind} {}; there are {}", echo(word), known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use svc_core::operation_table;

    use super::*;

    fn of(toolsets: Option<&str>, tools: Option<&str>) -> ToolChoice {
        ToolChoice {
            toolsets: toolsets.map(str::to_owned),
            tools: tools.map(str::to_owned),
            reads_only: false,
        }
    }

    fn shown(choice: &ToolChoice) -> Vec<&'static str> {
        let table = operation_table().unwrap();
        let view = ToolFilter::chosen(&table, choice).unwrap();
        let mut names: Vec<_> =
            listed_tools(&table).filter(|operation| view.shows(operation)).map(Operation::name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn words_choose_tools() {
        let all = shown(&ToolChoice::default());
        assert_eq!(shown(&of(Some("all"), None)), all);
        assert_eq!(shown(&of(Some("claims,all"), None)), all);
        assert_eq!(shown(&of(None, Some(" whoami , claim_thread"))), vec!["claim_thread", "whoami"]);
        let claims = shown(&of(Some("claims"), None));
        assert!(claims.contains(&"claim_thread") && !claims.contains(&"whoami"), "{claims:?}");
        assert_eq!(shown(&of(Some("claims"), Some("whoami"))).len(), claims.len() + 1);
        let reads = shown(&ToolChoice { reads_only: true, ..of(Some("worker"), None) });
        assert!(reads.contains(&"whoami") && !reads.contains(&"claim_thread"), "{reads:?}");
        assert_eq!(shown(&of(Some(""), Some(","))), all, "nothing was chosen");
    }

    #[test]
    fn instructions_name_no_tool_that_is_not_shown() {
        let table = operation_table().unwrap();
        let all = of(None, None);
        let worker = of(Some("worker"), None);
        let views = [
            all.clone(),
            worker.clone(),
            ToolChoice { reads_only: true, ..all },
            ToolChoice { reads_only: true, ..worker },
            of(Some("worker,claims"), None),
            of(None, Some("whoami")),
        ];
        let instructed = views.map(|choice| {
            let view = ToolFilter::chosen(&table, &choice).unwrap();
            for word in view.instructions().split('`').skip(1).step_by(2) {
                let operation = table.operation(word);
                assert!(operation.is_none_or(|operation| view.shows(operation)), "{choice:?}: {word}");
            }
            view.instructions()
        });
        assert_eq!(instructed[1], Profile::Worker.instructions());
        assert_eq!(instructed[2..], [PARTIAL_INSTRUCTIONS; 4]);
        let within = |choice| ToolFilter::for_profile_and_choice(Profile::Reviewer, &choice);
        assert!(within(of(Some("claims"), None)).is_err() && within(of(Some(""), None)).is_ok());
    }

    #[test]
    fn an_unknown_word_is_told_with_the_nearest() {
        let table = operation_table().unwrap();
        let refused = |choice: ToolChoice| ToolFilter::chosen(&table, &choice).unwrap_err();
        assert_eq!(refused(of(Some("claim"), None)), "there is no toolset claim; did you mean claims?");
        let tool = of(None, Some("clam_thread"));
        assert_eq!(refused(tool), "there is no tool clam_thread; did you mean claim_thread?");
    }
}
