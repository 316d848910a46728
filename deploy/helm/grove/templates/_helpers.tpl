{{- /* Every object has the labels that select the operator's pods; those are the Go chart's, so that its Deployment can be upgraded. */ -}}
{{- define "grove.labels" -}}
app.kubernetes.io/name: grove-operator
app.kubernetes.io/component: operator-deployment
app.kubernetes.io/part-of: grove
{{- end -}}

{{- /* In a pod the operator serves webhooks unless it is told not to. */ -}}
{{- define "grove.servesWebhooks" -}}
{{- if dig "server" "webhooks" "enabled" true .Values.config -}}true{{- end -}}
{{- end -}}

{{- define "grove.makesCertificate" -}}
{{- if and (include "grove.servesWebhooks" .) (eq (dig "server" "webhooks" "certProvisionMode" "auto" .Values.config) "auto") -}}true{{- end -}}
{{- end -}}

{{- define "grove.document" -}}
{{- toJson (merge (dict "apiVersion" "operator.config.grove.io/v1alpha1" "kind" "OperatorConfiguration") (deepCopy .Values.config)) -}}
{{- end -}}

{{- /* The name ends in a hash, so that a change of the configuration rolls the Deployment. */ -}}
{{- define "grove.configMap" -}}
grove-operator-cm-{{ include "grove.document" . | sha256sum | trunc 8 }}
{{- end -}}

{{- define "grove.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- .Values.image.repository }}{{ if hasPrefix "sha256:" $tag }}@{{ else }}:{{ end }}{{ $tag -}}
{{- end -}}

{{- define "grove.initImage" -}}
{{- .Values.initImage.repository }}{{ with .Values.initImage.tag }}:{{ . }}{{ end -}}
{{- end -}}

{{- /* Where an API server finds one webhook: (list $ path). In automatic mode the operator adds the CA bundle. */ -}}
{{- define "grove.clientConfig" -}}
{{- $root := index . 0 -}}
{{- $path := index . 1 -}}
{{- with $root.Values.webhooks.caBundle }}
caBundle: {{ . }}
{{- end }}
{{- with $root.Values.webhooks.url }}
url: {{ printf "%s%s" (trimSuffix "/" .) $path | quote }}
{{- else }}
service:
  namespace: {{ $root.Release.Namespace }}
  name: grove-operator
  port: {{ $root.Values.config.server.webhooks.port }}
  path: {{ $path }}
{{- end }}
{{- end -}}
