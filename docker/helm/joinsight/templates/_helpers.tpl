{{- define "joinsight.name" -}}
{{- if contains "joinsight" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-joinsight" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "joinsight.selector" -}}
app.kubernetes.io/name: joinsight
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "joinsight.labels" -}}
{{ include "joinsight.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "joinsight.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "joinsight.container" -}}
image: {{ include "joinsight.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
  - {name: JOINSIGHT_DATABASE_URL, value: {{ .Values.databaseUrl | quote }}}
  - {name: JOINSIGHT_DATABASE_PASSWORD_FILE, value: /run/secrets/joinsight/collector_password}
  {{- with .Values.environment }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: secrets, mountPath: /run/secrets/joinsight, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end }}
