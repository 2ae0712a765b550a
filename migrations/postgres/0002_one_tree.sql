-- PostgreSQL keeps rows in a heap beside their indexes; there is nothing to change.
select 1;
