// Actions on a member: freezing and unfreezing, skills, creating a token.
//
// Not here: creating a member, and actions on existing tokens (admin.js).

import { leaves } from "./rows.js";

/** @typedef {import("../actions.js").Action} Action */
/** @typedef {import("../actions.js").World} World */

/** @param {any} member */
const ofMember = (member) => ({ member_id: member.id });
/** @param {any} payload @param {any} input */
const sameMember = (payload, input) => payload.member_id === input.member_id;
/** @param {any} member @param {World} world */
const isMe = (member, world) => member.id === world.me.member_id;

/** @param {any} member @param {World} world @param {boolean} isGovernance */
const skillsOf = ({ skills = [] }, { store }, isGovernance) =>
  skills.filter(
    (/** @type {string} */ skill) => Boolean(store.get("skill", skill)?.governance) === isGovernance,
  );

/** @type {Action[]} */
export const members = [
  {
    id: "freeze_member",
    op: "freeze_member",
    on: "member",
    isMain: true,
    confirm: "form",
    when: (member, world) => member.active !== false && !member.frozen && !isMe(member, world),
    fill: ofMember,
    fields: ["reason"],
    leaves: leaves("MemberFrozen", sameMember),
  },
  {
    id: "unfreeze_member",
    op: "unfreeze_member",
    on: "member",
    isMain: true,
    confirm: "press",
    when: (member) => Boolean(member.frozen),
    fill: ofMember,
    leaves: leaves("MemberUnfrozen", sameMember),
  },
  {
    id: "mint_token",
    op: "mint_token",
    on: "member",
    hasSecret: true,
    when: ({ active }) => active !== false,
    fill: ofMember,
    fields: ["label", "capability_set", "capabilities", "expires_in_secs", "quotas"],
    leaves: leaves("TokenMinted", sameMember),
  },
  {
    id: "confer_skill",
    op: "confer_skill",
    on: "member",
    when: (member, world) => member.active !== false && !isMe(member, world),
    fill: ofMember,
    fields: ["skill"],
    leaves: leaves("GovernanceSkillConferred", sameMember),
  },
  {
    id: "revoke_skill",
    op: "revoke_skill",
    on: "member",
    confirm: "form",
    when: (member, world) => !isMe(member, world) && skillsOf(member, world, true).length > 0,
    fill: ofMember,
    fields: ["skill"],
    now: (member, world) => ({ skill: skillsOf(member, world, true)[0] }),
    leaves: leaves("GovernanceSkillRevoked", sameMember),
  },
  {
    id: "set_skills",
    op: "set_skills",
    on: "member",
    isMain: true,
    // The operation replaces all skills, so the governance skills must be known to be left out.
    when: (member, world) => isMe(member, world) && world.store.get("list", "skills") !== undefined,
    fill: () => ({}),
    fields: ["skills"],
    now: (member, world) => ({ skills: skillsOf(member, world, false) }),
    leaves: leaves("MemberSkillsChanged"),
  },
  {
    id: "update_me",
    op: "update_me",
    on: "member",
    when: isMe,
    fill: () => ({}),
    fields: ["display_name"],
    now: ({ display_name }) => ({ display_name }),
    leaves: leaves("MemberUpdated"),
  },
];
