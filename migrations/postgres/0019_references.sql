-- No table references another. The rows follow from the log, in an order that the code keeps, and that
-- SQLite, which has the same references, checks in every test. Here each would cost a query for each row
-- that is written, a lock on the row that is referenced, and a comparison for each change of a thread.
do $$
declare
    reference record;
begin
    for reference in
        select conrelid::regclass as of_table, conname from pg_constraint
        where contype = 'f' and connamespace = current_schema()::regnamespace
    loop
        execute format('alter table %s drop constraint %I', reference.of_table, reference.conname);
    end loop;
end $$;
