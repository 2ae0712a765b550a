-- Requests per rate window that a token may make, with all that are derived from it; null if it has no quota.
alter table tokens add column quota bigint;
