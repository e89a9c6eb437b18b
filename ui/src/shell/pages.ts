// The pages of the menu, the search and the keys. A page that the user may not see is not among them.

import { session } from '../api/session.svelte.ts';
import { address } from '../route/address.ts';

export type MenuPage = { name: string; short?: string; href: string; keys: string; at: string; icon: string };

type Entry = MenuPage & { isSeen?: () => boolean };

/** Only with one of these privileges. */
const withOneOf = (...privileges: string[]) => () => privileges.some((it) => session.has(it));

const ALL: Entry[] = [
  { name: 'Overview', href: address.overview(), keys: 'g o', at: '', icon: 'M2 10l7-7 7 7M4 9v7h10V9' },
  { name: 'Jobs', href: address.jobs(), keys: 'g j', at: 'jobs', icon: 'M3 4h12M3 9h12M3 14h12' },
  { name: 'Runs', href: address.runs(), keys: 'g r', at: 'runs', icon: 'M5 3v12l10-6z' },
  { name: 'Workflows', href: address.workflows(), keys: 'g w', at: 'workflows', icon: 'M2 4h4v3H2zM2 11h4v3H2zM12 7.5h4v3h-4zM6 5.5l6 3.5M6 12.5L12 9' },
  { name: 'Queues', href: address.queues(), keys: 'g q', at: 'queues', icon: 'M2.5 4h13v4h-13zM2.5 10h13v4h-13zM5 6h2M5 12h2' },
  { name: 'Dead letters', href: address.deadLetters(), keys: 'g d', at: 'dead-letters', icon: 'M2.5 4.5h13v9h-13zM2.5 4.5l6.5 5 6.5-5' },
  { name: 'Schedule lab', short: 'Lab', href: address.lab(), keys: 'g s', at: 'lab', icon: 'M2.5 3.5h13v12h-13zM2.5 7.5h13M6 2v3M12 2v3' },
  { name: 'SQL', href: address.sql(), keys: 'g c', at: 'sql', icon: 'M3 5c0-3 12-3 12 0v8c0 3-12 3-12 0zM3 5c0 3 12 3 12 0M3 9c0 3 12 3 12 0' },
  { name: 'Audit', href: address.audit(), keys: 'g a', at: 'audit', icon: 'M5 2h8v14H5zM7 6h4M7 9h4M7 12h2', isSeen: withOneOf('VIEW AUDIT', 'ADMINISTER TENANT', 'ADMINISTER CLUSTER') },
  { name: 'Cluster', href: address.cluster(), keys: 'g n', at: 'cluster', icon: 'M9 3a2 2 0 110 4 2 2 0 010-4zM4 11a2 2 0 110 4 2 2 0 010-4zM14 11a2 2 0 110 4 2 2 0 010-4zM8 7l-3 4M10 7l3 4', isSeen: withOneOf('ADMINISTER TENANT', 'ADMINISTER CLUSTER') },
  { name: 'Administration', short: 'Admin', href: address.admin(), keys: 'g u', at: 'administration', icon: 'M9 3a3 3 0 110 6 3 3 0 010-6zM3 16c0-8 12-8 12 0z' },
];

export const menuPages = (): MenuPage[] => ALL.filter((it) => it.isSeen?.() ?? true);
