// What a request that failed says: code, sentence, request id.

export type Detail = { field?: string; message: string };

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string = '',
    readonly details: Detail[] = [],
    readonly retryAfter?: number,
  ) {
    super(message);
  }

  /** What is wrong with a field of a form. */
  of(field: string): string | undefined {
    return this.details.find((it) => it.field === field)?.message;
  }
}

type Envelope = { error?: { code?: string; message?: string; request_id?: string; details?: Detail[] } };

export function problemOf(response: Response, body: unknown): Problem {
  const error = (body as Envelope | undefined)?.error;
  const wait = Number(response.headers.get('retry-after'));
  return new Problem(
    response.status,
    error?.code ?? `HTTP_${response.status}`,
    error?.message ?? (response.statusText || 'the server gave no reason'),
    error?.request_id ?? response.headers.get('x-request-id') ?? '',
    error?.details ?? [],
    Number.isFinite(wait) && wait > 0 ? wait : undefined,
  );
}

/** Any error as a problem: what is not an answer is a server that could not be reached. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, 'UNREACHABLE', 'the server cannot be reached');
}
