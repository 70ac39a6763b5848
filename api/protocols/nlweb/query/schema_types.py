"""The part of schema.org's type hierarchy that publishers use: normalizes the name of a type and lists its subtypes.

Only names are known here. A type that is not in the table has no subtypes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_TREE: Final = """
Thing: Action BioChemEntity CreativeWork Event Intangible MedicalEntity Organization Person Place Product Taxon
Action: AchieveAction AssessAction ConsumeAction CreateAction FindAction InteractAction MoveAction OrganizeAction
Action: PlayAction SearchAction TradeAction TransferAction UpdateAction
CreativeWork: ArchiveComponent Article Atlas Blog Book Certification Chapter Claim Clip Code Collection ComicStory
CreativeWork: Comment Conversation Course CreativeWorkSeason CreativeWorkSeries Credential DataCatalog Dataset
CreativeWork: DefinedTermSet Diet DigitalDocument Drawing Episode ExercisePlan Game
CreativeWork: Guide HowTo HowToDirection HowToSection HowToStep HowToTip HyperToc LearningResource Legislation
CreativeWork: AmpStory Manuscript Map MathSolver MediaObject MediaReviewItem Menu MenuSection Message Movie
CreativeWork: MusicComposition
CreativeWork: MusicPlaylist MusicRecording Painting Photograph Play Poster PublicationIssue PublicationVolume
CreativeWork: Quotation Review Sculpture Season SheetMusic ShortStory SoftwareApplication SoftwareSourceCode
CreativeWork: SpecialAnnouncement Statement TVSeason TVSeries Thesis VisualArtwork WebContent WebPage WebPageElement
CreativeWork: WebSite
Article: AdvertiserContentArticle NewsArticle Report SatiricalArticle ScholarlyArticle SocialMediaPosting TechArticle
NewsArticle: AnalysisNewsArticle AskPublicNewsArticle BackgroundNewsArticle OpinionNewsArticle
NewsArticle: ReportageNewsArticle ReviewNewsArticle
ScholarlyArticle: MedicalScholarlyArticle
SocialMediaPosting: BlogPosting DiscussionForumPosting
BlogPosting: LiveBlogPosting
TechArticle: APIReference
Book: Audiobook
Clip: MovieClip RadioClip TVClip VideoGameClip
Collection: ProductCollection ProductGroup
Comment: Answer CorrectionComment Question
CreativeWorkSeason: PodcastSeason RadioSeason TVSeason
CreativeWorkSeries: BookSeries MovieSeries Periodical PodcastSeries RadioSeries TVSeries VideoGameSeries
Credential: EducationalOccupationalCredential
Dataset: DataFeed
DataFeed: CompleteDataFeed
DefinedTermSet: CategoryCodeSet
DigitalDocument: NoteDigitalDocument PresentationDigitalDocument SpreadsheetDigitalDocument TextDigitalDocument
Episode: PodcastEpisode RadioEpisode TVEpisode
Game: VideoGame
HowTo: Recipe
LearningResource: Course Quiz Syllabus
Legislation: LegislationObject
MediaObject: 3DModel AmpStory AudioObject DataDownload ImageObject LegislationObject MusicVideoObject TextObject
MediaObject: VideoObject
AudioObject: AudioObjectSnapshot Audiobook
ImageObject: Barcode ImageObjectSnapshot
VideoObject: VideoObjectSnapshot
MusicPlaylist: MusicAlbum MusicRelease
Periodical: ComicSeries Newspaper
PublicationIssue: ComicIssue
Review: ClaimReview CriticReview EmployerReview MediaReview Recommendation UserReview
CriticReview: ReviewNewsArticle
SoftwareApplication: MobileApplication OperatingSystem RuntimePlatform VideoGame WebApplication
VisualArtwork: CoverArt
WebContent: HealthTopicContent
WebPage: AboutPage CheckoutPage CollectionPage ContactPage FAQPage ItemPage MedicalWebPage ProfilePage QAPage
WebPage: RealEstateListing SearchResultsPage
CollectionPage: MediaGallery
MediaGallery: ImageGallery VideoGallery
WebPageElement: SiteNavigationElement Table WPAdBlock WPFooter WPHeader WPSideBar
Event: BusinessEvent ChildrensEvent ComedyEvent ConferenceEvent CourseInstance DanceEvent DeliveryEvent EducationEvent
Event: EventSeries ExhibitionEvent Festival FoodEvent Hackathon LiteraryEvent MusicEvent PublicationEvent SaleEvent
Event: PerformingArtsEvent ScreeningEvent SocialEvent SportsEvent TheaterEvent UserInteraction VisualArtsEvent
PublicationEvent: BroadcastEvent OnDemandEvent
Intangible: ActionAccessSpecification AlignmentObject Audience BedDetails Brand BroadcastChannel ComputerLanguage
Intangible: DefinedTerm Demand EducationalOccupationalProgram EntryPoint FloorPlan Grant HealthInsurancePlan Invoice
Intangible: ItemList JobPosting Language ListItem
Intangible: MediaSubscription MemberProgram MenuItem MerchantReturnPolicy Observation Occupation Offer Order
Intangible: ParcelDelivery Permit Property PropertyValueSpecification Quantity Rating Reservation Role
Intangible: Schedule Seat Series Service ServiceChannel SpeakableSpecification StructuredValue Ticket Trip
Intangible: VirtualLocation
Audience: BusinessAudience EducationalAudience MedicalAudience PeopleAudience Researcher
PeopleAudience: MedicalAudience ParentAudience
MedicalAudience: Patient
DefinedTerm: CategoryCode
EducationalOccupationalProgram: WorkBasedProgram
Grant: MonetaryGrant
ItemList: BreadcrumbList HowToSection HowToStep OfferCatalog
ListItem: HowToDirection HowToItem HowToSection HowToStep HowToTip
HowToItem: HowToSupply HowToTool
Offer: AggregateOffer OfferForLease OfferForPurchase
Rating: AggregateRating EndorsementRating
AggregateRating: EmployerAggregateRating
Reservation: BoatReservation BusReservation EventReservation FlightReservation FoodEstablishmentReservation
Reservation: LodgingReservation RentalCarReservation ReservationPackage TaxiReservation TrainReservation
Series: CreativeWorkSeries EventSeries
Service: BroadcastService CableOrSatelliteService FinancialProduct FoodService GovernmentService Taxi TaxiService
Service: WebAPI
BroadcastService: RadioBroadcastService
FinancialProduct: BankAccount CurrencyConversionService InvestmentOrDeposit LoanOrCredit PaymentCard PaymentService
BankAccount: DepositAccount
InvestmentOrDeposit: BrokerageAccount DepositAccount InvestmentFund
LoanOrCredit: CreditCard MortgageLoan
PaymentCard: CreditCard
StructuredValue: ContactPoint GeoCoordinates GeoShape MonetaryAmount NutritionInformation OpeningHoursSpecification
StructuredValue: OrderItem OwnershipInfo PriceSpecification PropertyValue QuantitativeValue WarrantyPromise
ContactPoint: PostalAddress
QuantitativeValue: Observation
GeoShape: GeoCircle
Trip: BoatTrip BusTrip Flight TouristTrip TrainTrip
MedicalEntity: AnatomicalStructure AnatomicalSystem DrugClass LifestyleModification MedicalCause MedicalCondition
MedicalEntity: MedicalDevice MedicalGuideline MedicalIndication MedicalProcedure MedicalRiskFactor MedicalStudy
MedicalEntity: MedicalTest Substance SuperficialAnatomy
LifestyleModification: Diet PhysicalActivity
PhysicalActivity: ExercisePlan
MedicalCondition: InfectiousDisease MedicalSignOrSymptom
MedicalSignOrSymptom: MedicalSign MedicalSymptom
MedicalSign: VitalSign
MedicalProcedure: DiagnosticProcedure PalliativeProcedure PhysicalExam SurgicalProcedure TherapeuticProcedure
TherapeuticProcedure: MedicalTherapy PsychologicalTreatment
MedicalTherapy: OccupationalTherapy PalliativeProcedure PhysicalTherapy RadiationTherapy RespiratoryTherapy
MedicalStudy: MedicalObservationalStudy MedicalTrial
MedicalTest: BloodTest ImagingTest MedicalTestPanel PathologyTest
Substance: DietarySupplement Drug
BioChemEntity: ChemicalSubstance Gene MolecularEntity Protein
Organization: Airline Consortium Cooperative Corporation EducationalOrganization FundingScheme
Organization: GovernmentOrganization LibrarySystem LocalBusiness MedicalOrganization NGO NewsMediaOrganization
Organization: OnlineBusiness PerformingGroup PoliticalParty Project ResearchOrganization SearchRescueOrganization
Organization: SportsOrganization WorkersUnion
EducationalOrganization: CollegeOrUniversity ElementarySchool HighSchool MiddleSchool Preschool School
MedicalOrganization: Dentist DiagnosticLab Hospital MedicalClinic Pharmacy Physician VeterinaryCare
MedicalClinic: CovidTestingFacility
Physician: IndividualPhysician PhysiciansOffice
OnlineBusiness: OnlineStore
OnlineStore: OnlineMarketplace
PerformingGroup: DanceGroup MusicGroup TheaterGroup
Project: FundingAgency ResearchProject
SportsOrganization: SportsTeam
LocalBusiness: AnimalShelter ArchiveOrganization AutomotiveBusiness ChildCare Dentist DryCleaningOrLaundry
LocalBusiness: EmergencyService EmploymentAgency EntertainmentBusiness FinancialService FoodEstablishment
LocalBusiness: GovernmentOffice HealthAndBeautyBusiness HomeAndConstructionBusiness InternetCafe LegalService Library
LocalBusiness: LodgingBusiness MedicalBusiness ProfessionalService RadioStation RealEstateAgent RecyclingCenter
LocalBusiness: SelfStorage ShoppingCenter SportsActivityLocation Store TelevisionStation TouristInformationCenter
LocalBusiness: TravelAgency
AutomotiveBusiness: AutoBodyShop AutoDealer AutoPartsStore AutoRental AutoRepair AutoWash GasStation
AutomotiveBusiness: MotorcycleDealer MotorcycleRepair
EmergencyService: FireStation Hospital PoliceStation
EntertainmentBusiness: AdultEntertainment AmusementPark ArtGallery Casino ComedyClub MovieTheater NightClub
FinancialService: AccountingService AutomatedTeller BankOrCreditUnion InsuranceAgency
FoodEstablishment: Bakery BarOrPub Brewery CafeOrCoffeeShop Distillery FastFoodRestaurant IceCreamShop Restaurant
FoodEstablishment: Winery
GovernmentOffice: PostOffice
HealthAndBeautyBusiness: BeautySalon DaySpa HairSalon HealthClub NailSalon TattooParlor
HomeAndConstructionBusiness: Electrician GeneralContractor HVACBusiness HousePainter Locksmith MovingCompany Plumber
HomeAndConstructionBusiness: RoofingContractor
LegalService: Attorney Notary
LodgingBusiness: BedAndBreakfast Campground Hostel Hotel Motel Resort VacationRental
Resort: SkiResort
MedicalBusiness: CommunityHealth Dentist Dermatology DietNutrition Emergency Geriatric Gynecologic MedicalClinic
MedicalBusiness: Midwifery Nursing Obstetric Oncologic Optician Optometric Otolaryngologic Pediatric Pharmacy
MedicalBusiness: Physician Physiotherapy PlasticSurgery Podiatric PrimaryCare Psychiatric PublicHealth
SportsActivityLocation: BowlingAlley ExerciseGym GolfCourse HealthClub PublicSwimmingPool SkiResort SportsClub
SportsActivityLocation: StadiumOrArena TennisComplex
Store: AutoPartsStore BikeStore BookStore ClothingStore ComputerStore ConvenienceStore DepartmentStore
Store: ElectronicsStore Florist FurnitureStore GardenStore GroceryStore HardwareStore HobbyShop HomeGoodsStore
Store: JewelryStore LiquorStore MensClothingStore MobilePhoneStore MovieRentalStore MusicStore OfficeEquipmentStore
Store: OutletStore PawnShop PetStore ShoeStore SportingGoodsStore TireShop ToyStore WholesaleStore
Person: Patient
Place: Accommodation AdministrativeArea CivicStructure Landform LandmarksOrHistoricalBuildings LocalBusiness
Place: Residence TouristAttraction TouristDestination
Accommodation: Apartment CampingPitch House Room Suite
House: SingleFamilyResidence
Room: HotelRoom MeetingRoom
AdministrativeArea: City Country SchoolDistrict State
CivicStructure: Airport Aquarium Beach BoatTerminal Bridge BusStation BusStop Campground Cemetery Crematorium
CivicStructure: EducationalOrganization EventVenue FireStation GovernmentBuilding Hospital MovieTheater Museum
CivicStructure: MusicVenue Park ParkingFacility PerformingArtsTheater PlaceOfWorship Playground PoliceStation
CivicStructure: PublicToilet RVPark StadiumOrArena SubwayStation TaxiStand TrainStation Zoo
GovernmentBuilding: CityHall Courthouse DefenceEstablishment Embassy LegislativeBuilding
PlaceOfWorship: BuddhistTemple Church HinduTemple Mosque Synagogue
Church: CatholicChurch
Landform: BodyOfWater Continent Mountain Volcano
BodyOfWater: Canal LakeBodyOfWater OceanBodyOfWater Pond Reservoir RiverBodyOfWater SeaBodyOfWater Waterfall
Residence: ApartmentComplex GatedResidenceCommunity
Product: DietarySupplement Drug IndividualProduct ProductCollection ProductGroup ProductModel SomeProducts Vehicle
Vehicle: BusOrCoach Car Motorcycle MotorizedBicycle
"""

_VOCABULARY_PREFIX: Final = re.compile(r"(?:(?:https?:)?(?://)?(?:www\.)?schema\.org/|schema:)", re.IGNORECASE)


def _parse_tree(tree: str) -> dict[str, tuple[str, ...]]:
    """The direct subtypes of each type that has any."""
    children: dict[str, tuple[str, ...]] = {}
    for line in tree.strip().split("\n"):
        parent, _, names = line.partition(": ")
        children[parent] = (*children.get(parent, ()), *names.split())
    return children


_CHILDREN: Final = _parse_tree(_TREE)
_NAMES: Final = {name.lower(): name for parent, names in _CHILDREN.items() for name in (parent, *names)}


def normalize_type(written: str) -> str:
    """The name of a type that is written as a URL, in any case or in the plural; an unknown name keeps its case."""
    bare = _VOCABULARY_PREFIX.sub("", written.strip(), count=1).strip("/#")
    lower = re.sub(r"[\s_-]+", "", bare).lower()
    return _NAMES.get(lower) or _NAMES.get(lower.removesuffix("s")) or _NAMES.get(_singular(lower)) or bare


def _singular(lower: str) -> str:
    return lower.removesuffix("ies") + "y" if lower.endswith("ies") else lower.removesuffix("es")


def subtypes_of(name: str) -> frozenset[str]:
    """The type itself and all its direct and indirect subtypes."""
    return _descendants(name) if name in _CHILDREN else frozenset({name})


@cache  # only names of the table reach it, so that callers cannot make it grow
def _descendants(name: str) -> frozenset[str]:
    visited: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in visited:
            visited.add(current)
            pending.extend(_CHILDREN.get(current, ()))
    return frozenset(visited)
