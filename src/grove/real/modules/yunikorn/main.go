// YuniKorn as it comes, less its REST server: that one listens on every interface and cannot be told
// otherwise. In its place, HEALTH_ADDRESS (host:port) answers once the scheduler works.
package main

import (
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	core "github.com/apache/yunikorn-core/pkg/log"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-k8shim/pkg/log"
	"github.com/apache/yunikorn-k8shim/pkg/plugin/predicates"
	"github.com/apache/yunikorn-k8shim/pkg/shim"
)

func main() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)

	predicates.EnableOptionalKubernetesFeatureGates()
	maps, err := client.LoadBootstrapConfigMaps()
	must(err, "the ConfigMaps cannot be read")
	must(conf.UpdateConfigMaps(maps, true), "the ConfigMaps cannot be used")

	core.InitializeLogger(log.RootLogger(), log.GetZapConfigs())
	services := entrypoint.StartAllServicesWithParams(false, false)
	scheduler := shim.NewShimScheduler(services.RMProxy, conf.GetSchedulerConf(), maps)
	must(scheduler.Run(), "the scheduler cannot run")

	if address := os.Getenv("HEALTH_ADDRESS"); address != "" {
		go func() {
			answer := func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusOK) }
			must(http.ListenAndServe(address, http.HandlerFunc(answer)), "the health server ended")
		}()
	}
	<-asked
	scheduler.Stop()
}

func must(err error, what string) {
	if err != nil {
		log.Log(log.Shim).Fatal(what, zap.Error(err))
	}
}
