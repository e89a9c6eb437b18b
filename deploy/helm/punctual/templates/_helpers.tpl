{{- define "punctual.selector" -}}
app.kubernetes.io/name: punctual
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "punctual.labels" -}}
{{ include "punctual.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "punctual.secret" -}}
{{ .Values.existingSecret | default (printf "%s-punctual" .Release.Name) }}
{{- end }}
