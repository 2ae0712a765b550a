-- How many members have chosen an option of a vote, and as the choice -1 how many have chosen any.
create table ballot_counts (
    vote_id uuid not null,
    choice bigint not null,
    total bigint not null,
    primary key (vote_id, choice)
);
insert into ballot_counts (vote_id, choice, total)
    select vote_id, choice, count(*) from ballots group by vote_id, choice;
insert into ballot_counts (vote_id, choice, total)
    select vote_id, -1, count(distinct member_id) from ballots group by vote_id;
-- Reads the first members who have chosen an option, and what one member has chosen.
create index ballots_in_order on ballots (vote_id, choice, lsn);
create index ballots_of_member on ballots (vote_id, member_id);
