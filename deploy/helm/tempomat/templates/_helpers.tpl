{{- define "tempomat.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "tempomat.name" -}}
{{ printf "%s-tempomat" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
