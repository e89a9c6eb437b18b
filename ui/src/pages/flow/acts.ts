// What can be done with a DAG run and its steps. Each act has a dialog.

export type FlowAct =
  | { kind: 'RERUN'; step?: string }
  | { kind: 'APPROVE' | 'REJECT'; step: string }
  | { kind: 'MARK'; step: string; item?: number }
  | { kind: 'CANCEL' }
  | { kind: 'RESUME' };
