{{/* The name of all objects: the release's, which has "robotsproxy" in it or before it. */}}
{{- define "robotsproxy.name" -}}
{{- if contains "robotsproxy" .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ printf "%s-robotsproxy" (.Release.Name | trunc 51 | trimSuffix "-") }}
{{- end -}}
{{- end -}}

{{/* What selects the pods. */}}
{{- define "robotsproxy.selector" -}}
app.kubernetes.io/name: robotsproxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "robotsproxy.labels" -}}
{{ include "robotsproxy.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* "true" if the proxy has a volume. */}}
{{- define "robotsproxy.stored" -}}
{{- if and .Values.storage (eq (int .Values.replicas) 1) -}}true{{- end -}}
{{- end -}}

{{/* config.yaml: the value config, and what follows from the other values. */}}
{{- define "robotsproxy.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $set := dict "" (list "listen" "admin_listen" "admin_token" "data_dir" "shutdown_grace") "https" (list "ca_cert" "ca_key" "trust_dir") "cache" (list "store" "redis_url") -}}
{{- range $section, $keys := $set -}}
{{- $has := $section | empty | ternary $config (get $config $section | default dict) -}}
{{- range $keys -}}
{{- if hasKey $has . -}}
{{- fail (printf "config: the chart sets %s itself; values.yaml says from which values" (list $section . | compact | join ".")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "listen" ":8080" -}}
{{- $_ := set $config "admin_listen" (empty .Values.metrics.namespace | ternary "127.0.0.1:9090" ":9090") -}}
{{- $_ := set $config "shutdown_grace" (printf "%ds" (sub .Values.terminationGracePeriodSeconds 15)) -}}
{{- if .Values.secrets.adminToken -}}
{{- $_ := set $config "admin_token" "${ADMIN_TOKEN}" -}}
{{- end -}}
{{- if .Values.secrets.ca -}}
{{- $_ := set $config "https" (merge (dict "ca_cert" "ca/ca.pem" "ca_key" "ca/ca-key.pem") (get $config "https" | default dict)) -}}
{{- end -}}
{{- if .Values.secrets.redis -}}
{{- $_ := set $config "cache" (merge (dict "store" "redis" "redis_url" "${REDIS_URL}") (get $config "cache" | default dict)) -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{/* Says what is missing for several proxies, and for metrics. */}}
{{- define "robotsproxy.demands" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if not (and .Values.secrets.redis .Values.secrets.ca) -}}
{{- fail (printf "%d proxies need a Redis and a CA in common: name a Secret with the key url in secrets.redis, and one with ca.pem and ca-key.pem in secrets.ca; docs/deploy.md has the commands that make them" (int .Values.replicas)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.namespace (not .Values.secrets.adminToken) -}}
{{- fail "metrics.namespace opens the port of the API too: name a Secret with the key token in secrets.adminToken" -}}
{{- end -}}
{{- end -}}
