-- Requests per rate window that all tokens of an installation may make; null if it has no quota.
alter table app_installations add column quota bigint;

-- By which the newest of a workspace are found.
create index oidc_logins_of_workspace on oidc_logins (workspace_id, expires_at);
