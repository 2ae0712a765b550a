-- The column is called what the API calls it: whether a result stands that was not reopened.
alter table threads rename column settled to has_result;
