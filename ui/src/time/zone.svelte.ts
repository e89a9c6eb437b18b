// Which zone times are shown in: the viewer's, UTC, or that of the job on the page.

export type ZoneChoice = 'viewer' | 'utc' | 'job';

const KEY = 'punctual-zone';
const viewer = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

function stored(): ZoneChoice {
  try {
    const text = localStorage.getItem(KEY);
    if (text === 'utc' || text === 'job') return text;
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  return 'viewer';
}

class Zone {
  choice = $state<ZoneChoice>(stored());
  /** The zone of the job that the page is about. */
  job = $state<string | undefined>();
  readonly viewer = viewer;

  get name(): string {
    if (this.choice === 'utc') return 'UTC';
    if (this.choice === 'job' && this.job) return this.job;
    return viewer;
  }

  next(): void {
    const order: ZoneChoice[] = this.job && this.job !== viewer && this.job !== 'UTC' ? ['viewer', 'utc', 'job'] : ['viewer', 'utc'];
    this.choice = order[(order.indexOf(this.choice) + 1) % order.length] ?? 'viewer';
    try {
      localStorage.setItem(KEY, this.choice);
    } catch {
      // As above.
    }
  }
}

export const zone = new Zone();
