// Times and durations as text. Formatters are made once for each zone and form.

const made = new Map<string, Intl.DateTimeFormat>();

function formatter(zone: string, form: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone} ${form}`;
  let found = made.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hourCycle: 'h23', ...options });
    made.set(key, found);
  }
  return found;
}

const HM: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' };
const HMS: Intl.DateTimeFormatOptions = { ...HM, second: '2-digit' };
const DAY: Intl.DateTimeFormatOptions = { weekday: 'short', day: 'numeric', month: 'short' };

const join = (text: string) => text.replace(/,/g, '');

/** A clock time near the present, a date further away. */
export function shortTime(at: Date, now: number, zone: string): string {
  const distance = Math.abs(now - at.getTime());
  const sameDay = dayKey(at, zone) === dayKey(new Date(now), zone);
  if (sameDay && distance < 86_400_000) return formatter(zone, 'hms', HMS).format(at);
  if (distance < 7 * 86_400_000) return join(formatter(zone, 'wd', { weekday: 'short', ...HM }).format(at));
  if (distance < 300 * 86_400_000)
    return join(formatter(zone, 'dm', { day: 'numeric', month: 'short', ...HM }).format(at));
  return formatter(zone, 'dmy', { day: 'numeric', month: 'short', year: 'numeric' }).format(at);
}

export function fullTime(at: Date, zone: string): string {
  return join(formatter(zone, 'full', { ...DAY, year: 'numeric', ...HMS }).format(at));
}

export function clockTime(at: Date, zone: string): string {
  return formatter(zone, 'hms', HMS).format(at);
}

export function minuteTime(at: Date, zone: string): string {
  return formatter(zone, 'hm', HM).format(at);
}

export function dayAndTime(at: Date, zone: string): string {
  const isMinute = at.getTime() % 60_000 === 0;
  return join(formatter(zone, isMinute ? 'dayhm' : 'dayhms', { ...DAY, ...(isMinute ? HM : HMS) }).format(at));
}

/** The difference to UTC, such as UTC+2. */
export function offsetName(at: Date, zone: string): string {
  const parts = formatter(zone, 'offset', { timeZoneName: 'shortOffset' }).formatToParts(at);
  return (parts.find((it) => it.type === 'timeZoneName')?.value ?? 'UTC').replace('GMT', 'UTC');
}

export function dayKey(at: Date, zone: string): string {
  return formatter(zone, 'key', { year: 'numeric', month: '2-digit', day: '2-digit' }).format(at);
}

/** The lines that a time shows when the pointer rests on it: zone, job's zone, UTC. */
export function allZones(at: Date, zones: string[]): string {
  const lines = [...new Set(zones)].filter((it) => it !== 'UTC').map((it) => `${fullTime(at, it)}  ${it} (${offsetName(at, it)})`);
  return [...lines, `${fullTime(at, 'UTC')}  UTC`, at.toISOString()].join('\n');
}

/** A length of time in at most two units; a dash when it is unknown or negative. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || !Number.isFinite(ms) || ms < 0) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 59.95) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const whole = Math.round(s);
  const pad = (n: number) => String(n).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${pad(whole % 60)} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} m`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How far away a time is, in its largest unit: `in 14 h`, `3 m ago`. */
export function relative(at: number, now: number): string {
  const away = Math.abs(at - now) / 1000;
  if (away < 1) return 'now';
  const text =
    away < 60 ? `${Math.floor(away)} s`
    : away < 3600 ? `${Math.floor(away / 60)} m`
    : away < 86_400 * 2 ? `${Math.floor(away / 3600)} h`
    : `${Math.floor(away / 86_400)} d`;
  return at > now ? `in ${text}` : `${text} ago`;
}

/** A text of the server as the beginning of a sentence. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A whole number with thin spaces between thousands. */
export function count(n: number | null | undefined): string {
  if (n === null || n === undefined) return '–';
  return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** A number of bytes. */
export function size(bytes: number): string {
  const unit = ['B', 'KB', 'MB', 'GB'];
  let at = 0;
  while (bytes >= 1000 && at < 3) {
    bytes /= 1024;
    at += 1;
  }
  return `${at && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${unit[at]}`;
}
