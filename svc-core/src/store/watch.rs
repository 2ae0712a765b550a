//! Watching the costs of statements, for tests with limits. Production code does not watch statements.

use std::sync::Arc;

/// A statement that a connection has run.
#[derive(Clone, Debug)]
pub struct ExecutedStatement {
    /// The SQL text of the statement.
    pub sql: &'static str,
    /// Cost of the statement: virtual machine steps on SQLite, rows that scans examined on Postgres.
    pub cost: u64,
}

impl ExecutedStatement {
    /// The commit of a write transaction.
    pub const COMMIT: Self = Self { sql: "commit", cost: 0 };
}

/// A function that is called with every executed statement.
pub type Watcher = Arc<dyn Fn(&ExecutedStatement) + Send + Sync>;

/// Returns how many rows the scans in a query plan examined, from the output of `explain (analyze)`.
pub(super) fn count_examined_rows<'l>(plan: impl IntoIterator<Item = &'l str>) -> u64 {
    let mut examined = 0_u64;
    let mut loops = 0_u64;
    for line in plan {
        let line = line.trim_start_matches([' ', '-', '>']);
        if let Some((_, actual)) = line.split_once("(actual ") {
            loops = 0;
            let table_scan = ["Seq Scan", "Index ", "Bitmap Heap", "Tid", "Parallel "];
            if table_scan.iter().any(|scan| line.starts_with(scan)) {
                loops = parse_number_after(actual, "loops=");
                examined = examined.saturating_add(parse_number_after(actual, "rows=").saturating_mul(loops));
            }
        } else if line.starts_with("Rows Removed by Filter: ") || line.starts_with("Rows Removed by Index") {
            examined = examined.saturating_add(parse_number_after(line, ": ").saturating_mul(loops));
        }
    }
    examined
}

fn parse_number_after(line: &str, name: &str) -> u64 {
    let after = line.split_once(name).map(|(_, after)| after).unwrap_or_default();
    let digits = after.find(|c: char| !c.is_ascii_digit()).map_or(after, |end| after.split_at(end).0);
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_all_loops_of_all_scans_are_examined() {
        let plan = "Limit  (cost=0.57..16 rows=1 width=4) (actual rows=1 loops=1)
  ->  Nested Loop  (cost=0.57..16 rows=1 width=4) (actual rows=10 loops=1)
        Join Filter: (a.id = b.id)
        Rows Removed by Join Filter: 900
        ->  Seq Scan on threads t  (cost=0.00..1 rows=1 width=16) (actual rows=10 loops=1)
              Filter: (state = 'open'::text)
              Rows Removed by Filter: 90
        ->  Index Scan using channels_pkey on channels c  (cost=0.1..8) (actual rows=2.00 loops=10)
              Index Cond: (id = t.channel_id)
              Rows Removed by Filter: 3
        ->  Index Scan using never on channels c  (cost=0.1..8 rows=1 width=16) (never executed)";
        assert_eq!(count_examined_rows(plan.lines()), 10 + 90 + 20 + 30);
    }
}
